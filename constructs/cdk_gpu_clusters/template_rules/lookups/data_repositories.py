"""Data repository associations, as the decision functions take them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.data_repository import DataRepository, read_s3_uri
from cdk_gpu_clusters.template_rules.case import Resource

ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"


@dataclass(frozen=True, slots=True)
class Association:
    """A link between a directory and an S3 prefix.

    Attributes:
        resource: The resource.
    """

    resource: Resource

    def placeholder(self, index: int) -> DataRepository:
        """A repository that collides with none of another index, where only their number matters."""
        return DataRepository(path=f"/{index}", bucket=str(index))

    def path(self) -> str:
        """The directory."""
        return self.resource.get("FileSystemPath").text() or ""

    def bucket_and_prefix(self) -> tuple[str, str]:
        """Bucket, or what stands for it, and prefix.

        Raises:
            Undecidable: If the prefix is not known, or the text is no S3 URI.
        """
        uri = self.resource.get("DataRepositoryPath")
        text = uri.template_text() or uri.text() or ""
        bucket, _, prefix = text.removeprefix("s3://").partition("/")
        if "${" in prefix:
            raise uri.undecidable("the prefix is known at deployment only")
        try:
            return bucket, read_s3_uri(f"s3://stand-in/{prefix}")[1]
        except ConfigError:
            raise uri.undecidable("this is not the S3 URI of a prefix") from None


def associations_of(file_system: Resource) -> list[Association]:
    """The associations of a file system of the template."""
    return file_system.once(_associations)


def repositories_of(associations: list[Association], side: Literal["path", "prefix"]) -> list[DataRepository]:
    """Associations as plain values, with one of their sides; the other one collides with nothing."""
    found = []
    for index, one in enumerate(associations):
        apart = one.placeholder(index)
        if side == "path":
            found.append(replace(apart, path=one.path()))
        else:
            bucket, prefix = one.bucket_and_prefix()
            found.append(replace(apart, bucket=bucket, prefix=prefix))
    return found


def _associations(file_system: Resource) -> list[Association]:
    return [
        Association(one)
        for one in file_system.case.resources_naming(file_system, ASSOCIATION)
        if file_system.is_target_of(one.get("FileSystemId"))
    ]
