"""Studies: papers whose content is a law of scaling, a bound or a cost model and not a decoding loop. Inputs go in, a
record of tables, figures and receipts comes out."""

from engines.core.study.declaration import (
    Broken,
    DeclaredStudy,
    Partial,
    Progress,
    StudyInfo,
    broken_studies,
    get_study,
    list_studies,
    run_study,
    study,
)
from engines.core.study.record import (
    STUDY_VERSION,
    Axis,
    Column,
    Figure,
    Played,
    Provenance,
    Receipt,
    Series,
    Study,
    Table,
    check_study,
    read_study,
)

__all__ = [
    "Axis",
    "Broken",
    "Column",
    "DeclaredStudy",
    "Figure",
    "Partial",
    "Played",
    "Progress",
    "Provenance",
    "Receipt",
    "STUDY_VERSION",
    "Series",
    "Study",
    "StudyInfo",
    "Table",
    "broken_studies",
    "check_study",
    "get_study",
    "list_studies",
    "read_study",
    "run_study",
    "study",
]
