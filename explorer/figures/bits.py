"""What is known of a model whose rows were fed beside others: whether a row's logits stay as they are, which decides
whether a lossless method can write the very text of its control."""

from engines import ModelRecord

ROUNDING = 1e-3  # logits: what float32 moves, and no choice with it but a tie


def rows_note(record: ModelRecord) -> str:
    """Whether a row's logits keep their bits beside other rows, in a sentence; "" where that was not measured."""
    if record.moved is None:
        return ""
    if record.slower is not None:
        return (
            f"With row-invariant forwards a row's logits in {record.dtype} are the same to the bit beside other rows "
            f"and in a draft tree; a forward of one row took {record.slower:.2f} times that of the plain network. Both "
            "were measured when the model was loaded."
        )
    if record.moved == 0:
        return (
            f"In {record.dtype} a row's logits are the same to the bit with other rows and in a draft tree, measured "
            "when the file was first used here."
        )
    if record.moved < ROUNDING:
        return (
            f"In {record.dtype} a row's logits move by {record.moved:.1g} at most with other rows, measured when the "
            "file was first used here."
        )
    return caution(record)


def caution(record: ModelRecord) -> str:
    """What to expect of a lossless method on weights in which rows move each other; "" where they do not."""
    if record.moved is None or record.moved < ROUNDING:
        return ""
    return (
        f"In {record.dtype} a row's logits move by up to {record.moved:.2g} with the other rows, measured when the "
        "file was first used here: a method that promises its control's text may part from it."
    )
