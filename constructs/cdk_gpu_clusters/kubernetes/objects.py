"""Objects of Kubernetes: their names and metadata, and the text that kubectl reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from cdk_gpu_clusters.errors import Finding, check, define_rule

#: An object of Kubernetes, as its YAML has it.
KubernetesObject = dict[str, Any]

#: Where objects go that name no namespace.
DEFAULT_NAMESPACE = "default"
#: Service account of pods that name none.
DEFAULT_SERVICE_ACCOUNT = "default"
#: Who made an object (Kubernetes documentation, "Recommended Labels").
MANAGED_BY = {"app.kubernetes.io/managed-by": "cdk-gpu-clusters"}

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# What every YAML reads as a text. kubectl reads YAML 1.1, to which `off`, `1_0` and `12:30` are no texts.
_PLAIN_TEXT = re.compile(r"[A-Za-z/.][-A-Za-z0-9/._]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", ".inf", ".nan"})
#: Longest label of a DNS name (RFC 1035, 2.3.4); names of pods, services and label values keep to it.
_LONGEST = 63

NAME_FORM = define_rule(
    "GPU-K8S-001",
    "a name begins with a lower-case letter, and it and all names made of it are labels of DNS",
    source='Kubernetes documentation, "Object Names and IDs": RFC 1035 label names, 63 characters at most',
)


@check
def check_name(name: str, *, longest: int = _LONGEST, path: str = "name") -> Iterator[Finding]:
    """Find a name that Kubernetes would refuse for an object, or for one that a controller names after it.

    Args:
        name: The name.
        longest: Most characters, where a controller adds some.
        path: Where it was given.

    Example:
        >>> [finding.id for finding in check_name("Llama_train")]
        ['GPU-K8S-001']
    """
    if not _LABEL.fullmatch(name) or len(name) > longest:
        yield NAME_FORM.finding(
            cause="Kubernetes takes no such name",
            got=repr(name),
            allowed=f"1 to {longest} lower-case letters, digits and dashes, with a letter first and no dash last",
            fix="change the name",
            path=path,
        )


def short_name(name: str, longest: int) -> str:
    """The name, or its beginning with a digest of all of it.

    Args:
        name: The name.
        longest: Most characters.

    Example:
        >>> short_name("chat", 35), short_name("a" * 36, 35)
        ('chat', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaa-22c1d2')
    """
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: longest - 7]}-{digest}"


def metadata(
    name: str,
    *,
    namespace: str | None = DEFAULT_NAMESPACE,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The metadata of an object.

    Args:
        name: Its name.
        namespace: Its namespace, None for objects of the cluster.
        labels: Labels besides the one of this library.
        annotations: Annotations.
    """
    told: dict[str, Any] = {"name": name}
    if namespace is not None:
        told["namespace"] = namespace
    told["labels"] = {"app.kubernetes.io/name": name, **MANAGED_BY, **(labels or {})}
    if annotations:
        told["annotations"] = dict(annotations)
    return told


def kubernetes_object(
    api_version: str,
    kind: str,
    name: str,
    spec: dict[str, Any],
    *,
    namespace: str | None = DEFAULT_NAMESPACE,
    labels: Mapping[str, str] | None = None,
) -> KubernetesObject:
    """An object with a spec; otherwise as `metadata`."""
    about = metadata(name, namespace=namespace, labels=labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": spec}


def yaml_text(objects: Iterable[KubernetesObject], *, comments: Mapping[str, str] | None = None) -> str:
    """Objects as one YAML file, in their own order of keys: the same text for the same objects.

    Args:
        objects: The objects.
        comments: What a reader should know of an object, by its kind and name, such as `Job/fan-out`; one line each
            or more.

    Example:
        >>> print(yaml_text([{"kind": "Namespace", "metadata": {"name": "a"}}], comments={"Namespace/a": "Ours."}))
        # Ours.
        kind: Namespace
        metadata:
          name: a
        <BLANKLINE>
    """
    known = comments or {}
    return "---\n".join(_comment(known.get(_key(one), "")) + document_text(one) for one in objects)


def _key(one: KubernetesObject) -> str:
    return f"{one['kind']}/{one['metadata'].get('name', '')}"


def _comment(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def document_text(one: Mapping[str, Any]) -> str:
    """One YAML document: an object, or the values of a chart.

    Args:
        one: What it holds.

    Example:
        >>> print(document_text({"migStrategy": "mixed", "on": "off"}))
        migStrategy: mixed
        "on": "off"
        <BLANKLINE>
    """
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 4096  # a long text is not folded: kubectl would not mind, a reader would
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.ignore_aliases = lambda *_: True
    text = StringIO()
    yaml.dump(_plain(one), text)
    return text.getvalue()


def _plain(value: Any) -> Any:
    """The value with long texts as blocks, and texts and keys quoted if YAML may read another type."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if not isinstance(value, str):
        return value
    if "\n" in value:
        return LiteralScalarString(value)
    is_plain = _PLAIN_TEXT.fullmatch(value) and value.lower() not in _WORDS
    return value if is_plain else DoubleQuotedScalarString(value)
