"""What must hold for nodes, networks and services, beyond what policy packs see."""

from __future__ import annotations

from security.checks import Check, Json

_EVERYWHERE = ("0.0.0.0/0", "::/0")
_DATA = "Properties.LaunchTemplateData"
_DESYNC = "routing.http.desync_mitigation_mode"


def _template(resource: Json) -> Json:
    data: Json = resource["Properties"]["LaunchTemplateData"]
    return data


def _imds(resource: Json) -> bool:
    options = _template(resource)["MetadataOptions"]
    tags = options.get("InstanceMetadataTags", "disabled")
    allowed: bool = options["HttpPutResponseHopLimit"] == 1 and tags == "disabled"
    return allowed and options["HttpTokens"] == "required"


def _interfaces(resource: Json) -> bool:
    data = _template(resource)
    return (
        all(one["Groups"] for one in data["NetworkInterfaces"])
        and not any(one.get("AssociatePublicIpAddress") for one in data["NetworkInterfaces"])
        and not any(key in data for key in ("SecurityGroupIds", "SecurityGroups", "KeyName"))
    )


def _ingress(rule: Json) -> bool:
    """Nothing from everywhere, no SSH, and all traffic only from a group."""
    from_everywhere = rule.get("CidrIp", rule.get("CidrIpv6")) in _EVERYWHERE
    by_address = "CidrIp" in rule or "CidrIpv6" in rule
    all_traffic = rule["IpProtocol"] == "-1"
    ssh = not all_traffic and rule["FromPort"] <= 22 <= rule["ToPort"]
    return not from_everywhere and not ssh and not (all_traffic and by_address)


def _inline_ingress(resource: Json) -> bool:
    return all(_ingress(rule) for rule in resource["Properties"].get("SecurityGroupIngress", []))


def _attributes(resource: Json) -> Json:
    return {one["Key"]: one["Value"] for one in resource["Properties"]["LoadBalancerAttributes"]}


def _load_balancer(resource: Json) -> bool:
    settings = _attributes(resource)
    return (
        settings.get("routing.http.drop_invalid_header_fields.enabled") == "true"
        and settings.get("access_logs.s3.enabled") == "true"
    )


def _zones(resource: Json) -> bool:
    subnets = resource["Properties"]["Subnets"]
    return isinstance(subnets, list) and len(subnets) > 1


def _listener(resource: Json) -> bool:
    properties = resource["Properties"]
    if properties["Protocol"] == "HTTP":  # refused unless the load balancer is internal (GPU-INF-012)
        return bool(properties["Port"] == 80)
    return "TLS13" in properties["SslPolicy"] and bool(properties["Certificates"])


MACHINES = (
    Check(
        "IMDSv2 only, within the instance",
        "AWS::EC2::LaunchTemplate",
        _imds,
        (
            (f"{_DATA}.MetadataOptions.HttpTokens", "optional"),
            (f"{_DATA}.MetadataOptions.HttpPutResponseHopLimit", 2),
            (f"{_DATA}.MetadataOptions.InstanceMetadataTags", "enabled"),
        ),
    ),
    Check(
        "volumes are encrypted",
        "AWS::EC2::LaunchTemplate",
        lambda resource: all(one["Ebs"]["Encrypted"] for one in _template(resource)["BlockDeviceMappings"]),
        ((f"{_DATA}.BlockDeviceMappings.0.Ebs.Encrypted", False),),
    ),
    Check(
        "every interface has groups, none a public address, and there is no key pair",
        "AWS::EC2::LaunchTemplate",
        _interfaces,
        (
            (f"{_DATA}.NetworkInterfaces.0.Groups", []),
            (f"{_DATA}.NetworkInterfaces.0.AssociatePublicIpAddress", True),
            (f"{_DATA}.SecurityGroupIds", ["sg-0123456789abcdef0"]),
            (f"{_DATA}.KeyName", "mine"),
        ),
    ),
    Check(
        "no SSH, nothing from everywhere, all traffic only between groups",
        "AWS::EC2::SecurityGroupIngress",
        lambda resource: _ingress(resource["Properties"]),
        (
            ("Properties.CidrIp", "0.0.0.0/0"),
            ("Properties", {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 1024, "CidrIp": "10.0.0.0/8"}),
            ("Properties", {"IpProtocol": "-1", "CidrIp": "10.0.0.0/8"}),
        ),
    ),
    Check(
        "no SSH, nothing from everywhere in a group either",
        "AWS::EC2::SecurityGroup",
        _inline_ingress,
        (
            ("Properties.SecurityGroupIngress", [{"IpProtocol": "-1", "CidrIpv6": "::/0"}]),
            (
                "Properties.SecurityGroupIngress",
                [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.0/8"}],
            ),
        ),
    ),
    Check(
        "subnets give no public addresses",
        "AWS::EC2::Subnet",
        lambda resource: resource["Properties"]["MapPublicIpOnLaunch"] is False,
        (("Properties.MapPublicIpOnLaunch", True),),
    ),
    Check(
        "reservations end, and go with their stack",
        "Custom::EC2CapacityReservation",
        lambda resource: (
            resource["Properties"]["EndDateType"] == "limited"
            and "EndDate" in resource["Properties"]
            and resource.get("DeletionPolicy", "Delete") == "Delete"
        ),
        (("Properties.EndDateType", "unlimited"), ("DeletionPolicy", "Retain")),
    ),
    Check(
        "load balancers drop invalid headers and log requests",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        _load_balancer,
        (("Properties.LoadBalancerAttributes", []),),
    ),
    Check(
        "load balancers do not let requests through that servers read in two ways",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        lambda resource: _attributes(resource).get(_DESYNC, "defensive") in ("defensive", "strictest"),
        (("Properties.LoadBalancerAttributes", [{"Key": _DESYNC, "Value": "monitor"}]),),
    ),
    Check(
        "load balancers are in several subnets",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        _zones,
        (("Properties.Subnets", ["subnet-0123456789abcdef0"]),),
    ),
    Check(
        "groups launch by launch templates",
        "AWS::AutoScaling::AutoScalingGroup",
        lambda resource: "LaunchTemplate" in resource["Properties"],
        (("Properties", {"LaunchConfigurationName": "mine"}),),
    ),
    Check(
        "functions in a network are in several subnets",
        "AWS::Lambda::Function",
        lambda resource: len(resource["Properties"].get("VpcConfig", {"SubnetIds": [1, 2]})["SubnetIds"]) > 1,
        (("Properties.VpcConfig", {"SubnetIds": ["subnet-0123456789abcdef0"]}),),
    ),
    Check(
        "listeners speak TLS 1.2 or 1.3, unless plain HTTP was asked for",
        "AWS::ElasticLoadBalancingV2::Listener",
        _listener,
        (
            ("Properties", {"Protocol": "HTTP", "Port": 443}),
            (
                "Properties",
                {"Protocol": "HTTPS", "SslPolicy": "ELBSecurityPolicy-2016-08", "Certificates": [1]},
            ),
        ),
    ),
    Check(
        "state machines log everything and are traced",
        "AWS::StepFunctions::StateMachine",
        lambda resource: (
            resource["Properties"]["LoggingConfiguration"]["Level"] == "ALL"
            and resource["Properties"]["TracingConfiguration"]["Enabled"] is True
        ),
        (
            ("Properties.LoggingConfiguration.Level", "OFF"),
            ("Properties.TracingConfiguration.Enabled", False),
        ),
    ),
    Check(
        "log groups expire",
        "AWS::Logs::LogGroup",
        lambda resource: resource["Properties"].get("RetentionInDays", 0) > 0,
        (("Properties", {}),),
    ),
)
