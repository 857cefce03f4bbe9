"""Charts of what serves models to clients: load balancers for gateways, names, and the number of servers."""

from __future__ import annotations

from typing import Any

from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, ImageMirror, SoftwareSource

#: Where the pods of the AWS Load Balancer Controller are, and their service account.
LOAD_BALANCER_NAMESPACE, LOAD_BALANCER_ACCOUNT = "kube-system", "aws-load-balancer-controller"
#: Where the pod of ExternalDNS is, and its service account.
EXTERNAL_DNS_NAMESPACE, EXTERNAL_DNS_ACCOUNT = "external-dns", "external-dns"
#: Where the pods of KEDA are, and the service account of the operator, which queries metrics.
KEDA_NAMESPACE, KEDA_ACCOUNT = "keda", "keda-operator"
#: Where the pods of Argo Rollouts are, and their service account, which queries metrics.
ROLLOUTS_NAMESPACE, ROLLOUTS_ACCOUNT = "argo-rollouts", "argo-rollouts"
#: Where Argo Rollouts asks, in its own pod: the proxy signs what it gets, so that no other pod may reach it.
SIGNING_PROXY = "127.0.0.1:8005"
#: Providers of traffic of which Argo Rollouts needs no permissions: servers get requests by their number.
_ROUTERS = (
    *("istio", "smi", "ambassador", "awsLoadBalancerController", "awsAppMesh", "traefik", "apisix", "contour"),
    *("glooPlatform", "gatewayAPI"),
)


def gateway_api_chart(*, mirror: ImageMirror | None = None) -> ChartRelease:
    """The chart of the CRDs of the Gateway API, in the version that the AWS Load Balancer Controller is built for.

    The project itself publishes no chart. This one has its CRDs of the experimental channel, which contain those of
    the standard channel; the manifests of this library keep to the standard ones. Helm keeps a release in a Secret of 1
    MiB at most (helm.sh, "Storage backends"): this one takes 750 KB of it, while charts with more CRDs do not fit.

    Args:
        mirror: Registries of a closed network, which hold copies of chart and image.

    Source: docs/guide/gateway/gateway.md of the AWS Load Balancer Controller v3.5.0: built for Gateway API v1.6.0.

    Example:
        >>> gateway_api_chart().version
        '1.6.0'
    """
    return SoftwareSource(mirror=mirror).release("gateway-api-crds", "gateway-api", {})


def load_balancer_controller_chart(
    *, cluster_name: str, vpc_id: str, region: str, mirror: ImageMirror | None = None
) -> ChartRelease:
    """The chart of the AWS Load Balancer Controller, which makes an Application Load Balancer of each gateway.

    Its service webhook stays off: it would stop every new Service of the cluster while the controller is away
    (failurePolicy Fail). It makes no class of Ingress, and does without AWS WAF and AWS Shield.

    Args:
        cluster_name: Name of the cluster; may be a CDK token.
        vpc_id: Network of the cluster; may be a CDK token. Pods reach no instance metadata, where it would read it.
        region: Region of the cluster; may be a CDK token.
        mirror: Registries of a closed network, which hold copies of chart and image.

    Example:
        >>> release = load_balancer_controller_chart(
        ...     cluster_name="research", vpc_id="vpc-0123456789abcdef0", region="us-east-1"
        ... )
        >>> release.values["defaultTargetType"]
        'ip'
    """
    values: dict[str, Any] = {
        "clusterName": cluster_name,
        "region": region,
        "vpcId": vpc_id,
        "image": SoftwareSource(mirror=mirror).repository_and_tag("aws-load-balancer-controller"),
        "serviceAccount": {"name": LOAD_BALANCER_ACCOUNT},
        "defaultTargetType": "ip",
        # Its role has no permissions for them (rules.load_balancer_rights).
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "enableServiceMutatorWebhook": False,
        "createIngressClassResource": False,
        "ingressClassParams": {"create": False},
        # Otherwise each update of the chart makes another certificate, which running pods do not have yet.
        "keepTLSSecret": True,
        "podDisruptionBudget": {"maxUnavailable": 1},
    }
    return SoftwareSource(mirror=mirror).release("aws-load-balancer-controller", LOAD_BALANCER_NAMESPACE, values)


def external_dns_chart(
    *, cluster_name: str, zone_id: str, zone_name: str, region: str, mirror: ImageMirror | None = None
) -> ChartRelease:
    """The chart of ExternalDNS, which keeps the names of HTTPRoutes in one hosted zone of Amazon Route 53.

    It changes and deletes only records that it made itself for this cluster, which it knows by TXT records below them.

    Args:
        cluster_name: Name of the cluster, the owner of the records; may be a CDK token.
        zone_id: Hosted zone; may be a CDK token.
        zone_name: Domain of the zone; may be a CDK token.
        region: Region of the cluster; may be a CDK token.
        mirror: Registries of a closed network, which hold copies of chart and image.

    Source: kubernetes-sigs/external-dns @ 9f26451, docs/tutorials/aws.md, docs/sources/gateway-api.md,
    docs/registry/txt.md (a prefix with the type of the record and a period at its end, for names at a zone's apex).

    Example:
        >>> release = external_dns_chart(
        ...     cluster_name="research", zone_id="Z0123456789ABCDEFGHIJ", zone_name="example.org", region="us-east-1"
        ... )
        >>> release.values["policy"]
        'sync'
    """
    values: dict[str, Any] = {
        "image": SoftwareSource(mirror=mirror).repository_and_tag("external-dns"),
        "serviceAccount": {"name": EXTERNAL_DNS_ACCOUNT},
        "provider": {"name": "aws"},
        "env": [{"name": "AWS_DEFAULT_REGION", "value": region}],
        "sources": ["gateway-httproute"],
        "policy": "sync",
        "txtOwnerId": cluster_name,
        # A label of its own before the name: without it the TXT record of the zone's apex would be outside of the zone.
        "txtPrefix": "gpu-%{record_type}.",
        "domainFilters": [zone_name],
        "extraArgs": {"zone-id-filter": [zone_id]},
    }
    return SoftwareSource(mirror=mirror).release("external-dns", EXTERNAL_DNS_NAMESPACE, values)


def keda_chart(*, mirror: ImageMirror | None = None) -> ChartRelease:
    """The chart of KEDA, which changes the number of model servers by metrics of a workspace for Prometheus.

    Args:
        mirror: Registries of a closed network, which hold copies of chart and image.

    Example:
        >>> keda_chart().values["serviceAccount"]["operator"]["name"]
        'keda-operator'
    """
    source = SoftwareSource(mirror=mirror)
    values: dict[str, Any] = {
        "image": {
            "keda": source.registry_and_path("keda"),
            "metricsApiServer": source.registry_and_path("keda-metrics-apiserver"),
            "webhooks": source.registry_and_path("keda-admission-webhooks"),
            "pullPolicy": "IfNotPresent",
        },
        "serviceAccount": {"operator": {"name": KEDA_ACCOUNT}},
    }
    return source.release("keda", KEDA_NAMESPACE, values)


def argo_rollouts_chart(*, region: str, domain: str, mirror: ImageMirror | None = None) -> ChartRelease:
    """The chart of Argo Rollouts, which tries a new version of a model on some servers and takes it back on errors.

    The signing proxy of AWS runs beside its controller: the client with which Argo Rollouts v1.9 itself signs queries
    does not know EKS Pod Identity (argoproj/argo-rollouts, issue 4536; aws-sdk-go v1.44.116, while Pod Identity needs
    v1.47.11). It may change no routes and no load balancers, which servers that follow their number do not need.

    Args:
        region: Region of the workspace of Amazon Managed Service for Prometheus; may be a CDK token.
        domain: Domain of AWS in the partition of the Region; may be a CDK token.
        mirror: Registries of a closed network, which hold copies of chart and images.

    Sources: awslabs/aws-sigv4-proxy @ ed72b37 (v1.11.1), cmd/aws-sigv4-proxy/main.go: flags; Amazon EKS user guide,
    "Use pod identity with the AWS SDK".

    Example:
        >>> argo_rollouts_chart(region="us-east-1", domain="amazonaws.com").values["serviceAccount"]["name"]
        'argo-rollouts'
    """
    source = SoftwareSource(mirror=mirror)
    host = f"aps-workspaces.{region}.{domain}"
    proxy: dict[str, Any] = {
        "name": "sigv4-proxy",
        "image": source.reference("aws-sigv4-proxy"),
        "args": ["--name", "aps", "--region", region, "--host", host, "--port", SIGNING_PROXY],
        # Its image has no user of its own, and the pod takes no root.
        "securityContext": {
            "runAsUser": 65532,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    values: dict[str, Any] = {
        "serviceAccount": {"name": ROLLOUTS_ACCOUNT},
        "controller": {
            "image": source.registry_and_path("argo-rollouts"),
            "pdb": {"enabled": True, "maxUnavailable": 1},
            "extraContainers": [proxy],
        },
        "providerRBAC": {"providers": dict.fromkeys(_ROUTERS, False)},
    }
    return source.release("argo-rollouts", ROLLOUTS_NAMESPACE, values)
