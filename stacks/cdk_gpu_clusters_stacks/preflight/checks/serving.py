"""What model servers need: certificates, container images, secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters.rules.model_servers import EcrImage, read_ecr_image

from ..call import CERTIFICATE, CONTAINER_IMAGE, PARAMETERS, SECRET, Absent, NoAnswer
from ..check import Check, Inquiry, Verdict, failed, passed, warned
from ..cluster import Cluster
from ..resources import utc

_CERTIFICATES = "AWS Certificate Manager API reference, DescribeCertificate"

CERTIFICATE_ISSUED = define_rule(
    "GPU-PRE-151", "the certificates of load balancers are there and issued", source=_CERTIFICATES
)
CERTIFICATE_LASTS = define_rule(
    "GPU-PRE-152",
    "certificates that ACM does not renew last for 30 days more",
    source=f'{_CERTIFICATES}; AWS Certificate Manager user guide, "Managed certificate renewal"',
)
IMAGE_THERE = define_rule(
    "GPU-PRE-153",
    "container images of private ECR repositories are there",
    source="Amazon ECR API reference, DescribeImages",
)
SECRETS_THERE = define_rule(
    "GPU-PRE-154",
    "the secrets and parameters of model servers are there",
    source="AWS Secrets Manager API reference, DescribeSecret; Systems Manager API reference, DescribeParameters",
)

_LONG_ENOUGH = timedelta(days=30)


def _certificates(cluster: Cluster) -> Mapping[str, str]:
    named = {
        f"{where}.load_balancer.certificate_arn": service.load_balancer.certificate_arn
        for where, service in cluster.balanced.items()
    }
    return {where: arn for where, arn in named.items() if arn}


def _issued(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = inquiry.ask(CERTIFICATE, CertificateArn=arn)["Certificate"]
    except Absent:
        yield failed(f"there is no {arn}", fix="correct the ARN; it has to be of the cluster's Region")
        return
    if found.get("Status") != "ISSUED":
        yield failed(
            f"the certificate of {found.get('DomainName')} is {found.get('Status')}",
            fix="complete its validation, or name another",
        )
    else:
        yield passed(f"{found.get('DomainName')}: issued")


def _lasts(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = inquiry.ask(CERTIFICATE, CertificateArn=arn)["Certificate"]
    except Absent as absent:
        raise NoAnswer(f"there is no {arn}", fix="see GPU-PRE-151") from absent
    ends = found.get("NotAfter")
    if ends is None or found.get("RenewalEligibility") == "ELIGIBLE":
        yield passed("ACM renews it" if ends else "it has no end yet")
    elif ends - inquiry.now < _LONG_ENOUGH:
        yield warned(
            f"the certificate of {found.get('DomainName')} ends at {utc(ends)}",
            fix="import its successor in time",
        )
    else:
        yield passed(f"until {utc(ends)}")


def _images(cluster: Cluster) -> Mapping[str, tuple[EcrImage, str]]:
    named = {
        f"{where}.server.image": (read_ecr_image(service.server.image), service.server.image)
        for where, service in cluster.servers.items()
    }
    return {where: (found, text) for where, (found, text) in named.items() if found is not None}


def _image(named: tuple[EcrImage, str], inquiry: Inquiry) -> Iterator[Verdict]:
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
        yield failed(f"{text}: {absent.cause}", fix="push the image, or correct its name")
        return
    if where.region != inquiry.cluster.region:
        yield warned(
            f"{text} is pulled from {where.region}",
            fix=f"replicate the repository to {inquiry.cluster.region}",
        )
    else:
        yield passed(text)


def _secrets(cluster: Cluster) -> Mapping[str, str]:
    found = {}
    for where, service in cluster.servers.items():
        for name, secret in service.server.secrets.items():
            found[f"{where}.server.secrets.{name}"] = secret.arn
        if service.server.registry_login is not None:
            found[f"{where}.server.registry_login"] = service.server.registry_login.arn
    return found


def _secret(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    """Only that it is there: its value is never read."""
    if ":ssm:" in arn:
        name = "/" + arn.partition(":parameter/")[2]
        names = [name, name.removeprefix("/")]  # an ARN does not tell which of the two it is
        wanted = [{"Key": "Name", "Option": "Equals", "Values": names}]
        if inquiry.ask(PARAMETERS, ParameterFilters=wanted)["Parameters"]:
            yield passed(f"{name} is there")
        else:
            yield failed(f"there is no parameter {name}", fix="make it, or correct the ARN")
        return
    try:
        found = inquiry.ask(SECRET, SecretId=arn)
    except Absent:
        yield failed(f"there is no {arn}", fix="make it, or correct the ARN")
        return
    if "DeletedDate" in found:
        yield failed(f"{found.get('Name')} is to be deleted", fix="aws secretsmanager restore-secret")
    else:
        yield passed(f"{found.get('Name')} is there")


SERVING_CHECKS = (
    Check(
        rule=CERTIFICATE_ISSUED,
        calls=(CERTIFICATE,),
        subjects=_certificates,
        judge=_issued,
        unless="the file names no certificate",
    ),
    Check(
        rule=CERTIFICATE_LASTS,
        calls=(CERTIFICATE,),
        subjects=_certificates,
        judge=_lasts,
        unless="the file names no certificate",
    ),
    Check(
        rule=IMAGE_THERE,
        calls=(CONTAINER_IMAGE,),
        subjects=_images,
        judge=_image,
        unless="no image is of a private ECR repository",
    ),
    Check(
        rule=SECRETS_THERE,
        calls=(SECRET, PARAMETERS),
        subjects=_secrets,
        judge=_secret,
        unless="the file names no secret",
    ),
)
