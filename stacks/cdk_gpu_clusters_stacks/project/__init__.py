"""A new CDK project: its files as text. Nothing here imports CDK."""

from .cdk_flags import feature_flags
from .examples import Example, example, examples, nearest
from .files import AppKind, project_files

__all__ = ["AppKind", "Example", "example", "examples", "feature_flags", "nearest", "project_files"]
