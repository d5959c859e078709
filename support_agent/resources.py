"""Where the files beside the code are: migrations, policies, the sample shop."""

from pathlib import Path


def resource_dir() -> Path:
    """The folder that holds `alembic/` and `data/`: inside a wheel, or the root of a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "_resources"
    return installed if installed.is_dir() else package.parent
