"""What model servers need: certificates, container images, secrets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from cdk_gpu_clusters.rules.model_servers import EcrImage, read_ecr_image

from ..call import CERTIFICATE, CONTAINER_IMAGE, PARAMETERS, SECRET, Absent, NoAnswer
from ..check import Inquiry, Verdict, define_check, failed, passed, warned
from ..cluster import Cluster, utc

_CERTIFICATES = "AWS Certificate Manager API reference, DescribeCertificate"
_NO_CERTIFICATE = "the file names no certificate"
_LONG_ENOUGH = timedelta(days=30)


def _certificates(cluster: Cluster) -> Mapping[str, str]:
    named = {
        f"{where}.load_balancer.certificate_arn": service.load_balancer.certificate_arn
        for where, service in cluster.balanced.items()
    }
    return {where: arn for where, arn in named.items() if arn}


@define_check(
    "GPU-PRE-151",
    "the certificates of load balancers are there and issued",
    source=_CERTIFICATES,
    calls=(CERTIFICATE,),
    subjects=_certificates,
    unless=_NO_CERTIFICATE,
)
def _issued(arn: str, inquiry: Inquiry) -> Verdict:
    answer = inquiry.find(CERTIFICATE, CertificateArn=arn)
    if answer is None:
        return failed(f"there is no {arn}", fix="correct the ARN; it has to be of the cluster's Region")
    domain, status = answer["Certificate"].get("DomainName"), answer["Certificate"].get("Status")
    if status != "ISSUED":
        return failed(f"the certificate of {domain} is {status}", fix="complete its validation, or name another")
    return passed(f"{domain}: issued")


@define_check(
    "GPU-PRE-152",
    "certificates that ACM does not renew last for 30 days more",
    source=f'{_CERTIFICATES}; AWS Certificate Manager user guide, "Managed certificate renewal"',
    calls=(CERTIFICATE,),
    subjects=_certificates,
    unless=_NO_CERTIFICATE,
)
def _lasts(arn: str, inquiry: Inquiry) -> Verdict:
    answer = inquiry.find(CERTIFICATE, CertificateArn=arn)
    if answer is None:
        raise NoAnswer(f"there is no {arn}", fix="see GPU-PRE-151")
    found = answer["Certificate"]
    ends = found.get("NotAfter")
    if ends is None or found.get("RenewalEligibility") == "ELIGIBLE":
        return passed("ACM renews it" if ends else "it has no end yet")
    if ends - inquiry.now < _LONG_ENOUGH:
        return warned(
            f"the certificate of {found.get('DomainName')} ends at {utc(ends)}",
            fix="import its successor in time",
        )
    return passed(f"until {utc(ends)}")


def _images(cluster: Cluster) -> Mapping[str, tuple[EcrImage, str]]:
    images = {f"{where}.server.image": service.server.image for where, service in cluster.servers.items()}
    return {where: (found, text) for where, text in images.items() if (found := read_ecr_image(text)) is not None}


@define_check(
    "GPU-PRE-153",
    "container images of private ECR repositories are there",
    source="Amazon ECR API reference, DescribeImages",
    calls=(CONTAINER_IMAGE,),
    subjects=_images,
    unless="no image is of a private ECR repository",
)
def _image_there(named: tuple[EcrImage, str], inquiry: Inquiry) -> Verdict:
    where, text = named
    leaf = text.partition(where.repository)[2]
    wanted = {"imageDigest": leaf.partition("@")[2]} if "@" in leaf else {"imageTag": leaf[1:] or "latest"}
    try:
        inquiry.ask(
            CONTAINER_IMAGE,
            region=where.region,
            registryId=where.account,
            repositoryName=where.repository,
            imageIds=[wanted],
        )
    except Absent as absent:
        return failed(f"{text}: {absent.cause}", fix="push the image, or correct its name")
    if where.region != inquiry.cluster.region:
        return warned(
            f"{text} is pulled from {where.region}",
            fix=f"replicate the repository to {inquiry.cluster.region}",
        )
    return passed(text)


def _secrets(cluster: Cluster) -> Mapping[str, str]:
    found = {}
    for where, service in cluster.servers.items():
        for name, secret in service.server.secrets.items():
            found[f"{where}.server.secrets.{name}"] = secret.arn
        if service.server.registry_login is not None:
            found[f"{where}.server.registry_login"] = service.server.registry_login.arn
    return found


@define_check(
    "GPU-PRE-154",
    "the secrets and parameters of model servers are there",
    source="AWS Secrets Manager API reference, DescribeSecret; Systems Manager API reference, DescribeParameters",
    calls=(SECRET, PARAMETERS),
    subjects=_secrets,
    unless="the file names no secret",
)
def _secret_there(arn: str, inquiry: Inquiry) -> Verdict:
    """Only that it is there: its value is never read."""
    if ":ssm:" in arn:
        name = "/" + arn.partition(":parameter/")[2]
        names = [name, name.removeprefix("/")]  # an ARN does not tell which of the two it is
        wanted = [{"Key": "Name", "Option": "Equals", "Values": names}]
        if inquiry.ask(PARAMETERS, ParameterFilters=wanted)["Parameters"]:
            return passed(f"{name} is there")
        return failed(f"there is no parameter {name}", fix="make it, or correct the ARN")
    found = inquiry.find(SECRET, SecretId=arn)
    if found is None:
        return failed(f"there is no {arn}", fix="make it, or correct the ARN")
    if "DeletedDate" in found:
        return failed(f"{found.get('Name')} is to be deleted", fix="aws secretsmanager restore-secret")
    return passed(f"{found.get('Name')} is there")
