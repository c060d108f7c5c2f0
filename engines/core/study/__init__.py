"""Studies: papers whose content is a law of scaling, a bound or a cost model and not a decoding loop. Inputs go in, a
record of tables, figures and receipts comes out."""

from engines.core.study.declaration import (
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
    Receipt,
    Series,
    Study,
    Table,
    check_study,
    read_study,
)
