"""Conditions: both branches are looked at, and never two that exclude each other."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from templates import verdicts_of

MARKET = "GPU-CAP-030"
TOKENS = "GPU-LT-010"

NODES = """
Parameters:
  Mode: {Type: String, Default: none MORE}
  Other: {Type: String, Default: x}
Conditions:
CONDITIONS
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        MetadataOptions: {HttpTokens: TOKENS}
        InstanceMarketOptions: MARKET
        CapacityReservationSpecification: TARGET
"""
PARTS = {
    "MORE": "",
    "CONDITIONS": "",
    "TOKENS": "required",
    "MARKET": "!Ref AWS::NoValue",
    "TARGET": "{CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}}",
}


def said(rule: str, **parts: str) -> list[Verdict]:
    text = NODES
    for name, part in {**PARTS, **parts}.items():
        text = text.replace(name, part)
    return verdicts_of(text, rule)


def outcomes(rule: str, **parts: str) -> set[Outcome]:
    return {verdict.outcome for verdict in said(rule, **parts)}


def test_a_fault_in_a_branch_that_is_not_the_default_is_found() -> None:
    [verdict] = said(
        MARKET,
        CONDITIONS="  Spot: !Equals [!Ref Mode, spot]",
        MARKET="!If [Spot, {MarketType: spot}, !Ref AWS::NoValue]",
    )
    assert verdict.outcome is Outcome.NOT_COMPLIANT
    assert verdict.when == "Mode = 'spot'"
    assert verdict.path[-4:] == ("InstanceMarketOptions", "Fn::If", 1, "MarketType")


def test_branches_that_exclude_each_other_are_not_mixed() -> None:
    parts = {
        "CONDITIONS": "  Spot: !Equals [!Ref Mode, spot]\n  Block: !Not [!Condition Spot]",
        "MARKET": "!If [Spot, {MarketType: spot}, !Ref AWS::NoValue]",
        "TARGET": "!If [Block, {CapacityReservationTarget: {CapacityReservationId: cr-1}}, !Ref AWS::NoValue]",
    }
    assert outcomes(MARKET, **parts) == {Outcome.COMPLIANT}


def test_two_conditions_on_one_parameter_are_not_both_true() -> None:
    parts = {
        "CONDITIONS": "  Spot: !Equals [!Ref Mode, spot]\n  Reserved: !Equals [reserved, !Ref Mode]",
        "MARKET": "!If [Spot, {MarketType: spot}, !Ref AWS::NoValue]",
        "TARGET": "!If [Reserved, {CapacityReservationTarget: {CapacityReservationId: cr-1}}, !Ref AWS::NoValue]",
    }
    assert Outcome.NOT_COMPLIANT not in outcomes(MARKET, **parts)


def test_conditions_on_different_parameters_are_combined() -> None:
    parts = {
        "CONDITIONS": "  Spot: !Equals [!Ref Mode, spot]\n  Reserved: !Equals [!Ref Other, reserved]",
        "MARKET": "!If [Spot, {MarketType: spot}, !Ref AWS::NoValue]",
        "TARGET": "!If [Reserved, {CapacityReservationTarget: {CapacityReservationId: cr-1}}, !Ref AWS::NoValue]",
    }
    [verdict] = said(MARKET, **parts)
    assert verdict.when == "Mode = 'spot', Other = 'reserved'"


def test_a_reference_has_the_value_of_the_branch() -> None:
    parts = {
        "CONDITIONS": "  Asked: !Equals [!Ref Mode, optional]",
        "TOKENS": "!If [Asked, !Ref Mode, required]",
    }
    [verdict] = said(TOKENS, **parts)
    assert verdict.finding is not None
    assert verdict.finding.got == "optional"


def test_a_parameter_that_is_not_its_default_is_undecidable() -> None:
    parts = {"CONDITIONS": "  Plain: !Equals [!Ref Mode, none]", "TOKENS": "!If [Plain, required, !Ref Mode]"}
    [verdict] = said(TOKENS, **parts)
    assert verdict.outcome is Outcome.UNDECIDABLE
    assert "parameter Mode is not its default here" in verdict.reason


def test_what_no_allowed_value_makes_true_is_not_looked_at() -> None:
    parts = {
        "MORE": ", AllowedValues: [none, some]",
        "CONDITIONS": "  Spot: !Equals [!Ref Mode, spot]",
        "MARKET": "!If [Spot, {MarketType: spot}, !Ref AWS::NoValue]",
    }
    assert outcomes(MARKET, **parts) == {Outcome.COMPLIANT}


@pytest.mark.parametrize(
    ("allowed", "outcome"),
    [
        ("[required]", Outcome.COMPLIANT),
        ("[optional, none]", Outcome.NOT_COMPLIANT),
        ("[required, optional]", Outcome.UNDECIDABLE),
    ],
)
def test_all_allowed_values_must_agree(allowed: str, outcome: Outcome) -> None:
    text = NODES.replace("Default: none MORE", f"AllowedValues: {allowed}").replace("TOKENS", "!Ref Mode")
    for name, part in PARTS.items():
        text = text.replace(name, part)
    assert {verdict.outcome for verdict in verdicts_of(text, TOKENS)} == {outcome}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("!Equals [a, a]", Outcome.NOT_COMPLIANT),
        ("!Equals [a, b]", Outcome.COMPLIANT),
        ("!Not [!Equals [a, a]]", Outcome.COMPLIANT),
        ("!And [!Equals [a, a], !Equals [1, '1']]", Outcome.NOT_COMPLIANT),
        ("!Or [!Equals [a, b], !Equals [b, a]]", Outcome.COMPLIANT),
        ("!Equals [!Ref AWS::Region, us-east-1]", Outcome.NOT_COMPLIANT),
        ("!Equals [!Join ['', [!Ref Mode, x]], ax]", Outcome.NOT_COMPLIANT),
        ("{a: 1}", Outcome.UNDECIDABLE),
        ("!Condition Missing", Outcome.UNDECIDABLE),
        ("!Condition Optional", Outcome.UNDECIDABLE),
    ],
)
def test_conditions_are_evaluated(condition: str, expected: Outcome) -> None:
    parts = {"CONDITIONS": f"  Optional: {condition}", "TOKENS": "!If [Optional, optional, required]"}
    assert outcomes(TOKENS, **parts) == {expected}


def test_a_resource_exists_where_its_condition_holds() -> None:
    text = """
    Parameters: {Mode: {Type: String, Default: a}}
    Conditions: {A: !Equals [!Ref Mode, a], Never: !Equals [1, 2]}
    Resources:
      Nodes:
        Condition: CONDITION
        Type: AWS::EC2::LaunchTemplate
        Properties:
          LaunchTemplateData:
            InstanceType: p5.48xlarge
            MetadataOptions: {HttpTokens: !If [A, required, optional]}
    """
    for condition, expected in (("A", Outcome.COMPLIANT), ("Never", Outcome.NOT_APPLICABLE)):
        [verdict] = verdicts_of(text.replace("CONDITION", condition), TOKENS)
        assert verdict.outcome is expected


def test_too_many_conditions_are_said_to_be_too_many() -> None:
    conditions = "\n".join(f"  C{i}: !Equals [!GetAZs '{i}', [x]]" for i in range(9))
    nested = "required"
    for i in range(9):
        nested = f"!Join ['', [!If [C{i}, '', ''], {nested}]]"
    verdicts = said(TOKENS, CONDITIONS=conditions, TOKENS=nested)
    assert [verdict.reason for verdict in verdicts] == ["too many conditions have nothing to do with each other"]


def test_a_fault_of_every_case_is_told_once_and_of_no_case() -> None:
    parts = {
        "CONDITIONS": "  A: !Equals [!Ref Mode, a]",
        "MARKET": "{MarketType: !Join ['', [spo, !If [A, '', ''], t]]}",
    }
    [verdict] = said(MARKET, **parts)
    assert verdict.when == ""


ZONES = """
Parameters:
  Zones: {Type: CommaDelimitedList, Default: ", "}
Conditions:
  Second: !Not [!Equals [!Select [1, !Ref Zones], ""]]
Resources:
  Subnet:
    Type: AWS::EC2::Subnet
    CONDITION
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/24, AvailabilityZone: !Select [1, !Ref Zones]}
"""


def test_a_default_does_not_go_with_the_branch_that_it_does_not_lead_to() -> None:
    """The subnet is made only where somebody gave a second zone."""
    [verdict] = verdicts_of(ZONES.replace("CONDITION", "Condition: Second"), "GPU-NET-103")
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    [verdict] = verdicts_of(ZONES.replace("CONDITION", "DeletionPolicy: Delete"), "GPU-NET-103")
    assert verdict.outcome is Outcome.NOT_COMPLIANT


def test_a_comparison_of_what_the_template_says_is_no_choice() -> None:
    text = """
    Mappings: {Kinds: {nodes: {tokens: optional}}}
    Conditions: {Open: !Equals [!FindInMap [Kinds, nodes, tokens], optional]}
    Resources:
      Nodes:
        Type: AWS::EC2::LaunchTemplate
        Properties:
          LaunchTemplateData:
            InstanceType: p5.48xlarge
            MetadataOptions: {HttpTokens: !If [Open, optional, required]}
    """
    [verdict] = verdicts_of(text, TOKENS)
    assert verdict.outcome is Outcome.NOT_COMPLIANT
    assert verdict.when == ""


def test_a_condition_that_compares_itself_ends() -> None:
    """Twice, so that asking again at every level would never end."""
    text = """
Conditions: {A: !Equals [!If [A, x, y], !If [A, y, x]]}
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Condition: A
    Properties: {LaunchTemplateData: {InstanceType: p5.48xlarge}}
"""
    assert verdicts_of(text)


UNKNOWN_TYPE = """
Parameters: {Type: {Type: String}, Open: {Type: String, Default: "no"}}
Conditions: {Open: !Equals [!Ref Open, "yes"]}
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: !Ref Type
        MetadataOptions: {HttpTokens: TOKENS}
"""


@pytest.mark.parametrize(
    ("tokens", "outcome"),
    [
        ("required", Outcome.COMPLIANT),
        ("optional", Outcome.UNDECIDABLE),
        ("!If [Open, optional, required]", Outcome.UNDECIDABLE),
        ("!If [Open, required, required]", Outcome.COMPLIANT),
    ],
)
def test_a_type_that_is_not_known_matters_only_where_the_answer_depends_on_it(tokens: str, outcome: Outcome) -> None:
    """A rule about accelerated nodes, asked about nodes that may be such."""
    verdicts = verdicts_of(UNKNOWN_TYPE.replace("TOKENS", tokens), TOKENS)
    assert {verdict.outcome for verdict in verdicts} == {outcome}
    if outcome is Outcome.UNDECIDABLE:
        assert {verdict.reason for verdict in verdicts} == {"parameter Type has no default"}


def test_one_accelerated_type_among_unknown_ones_is_enough() -> None:
    text = (
        UNKNOWN_TYPE.replace("TOKENS", "optional")
        + """
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 2
      MixedInstancesPolicy:
        LaunchTemplate:
          LaunchTemplateSpecification: {LaunchTemplateId: !Ref Nodes, Version: "1"}
          Overrides: [{InstanceType: !Ref Type}, {InstanceType: g6.xlarge}]
"""
    )
    assert {verdict.outcome for verdict in verdicts_of(text, TOKENS)} == {Outcome.NOT_COMPLIANT}


GROUPS = "".join(
    f"""
  Nodes{number}: {{Type: AWS::EC2::LaunchTemplate, Condition: C{number}, Properties: {{LaunchTemplateData: {{}}}}}}
  Group{number}:
    Type: AWS::AutoScaling::AutoScalingGroup
    Condition: C{number}
    Properties:
      MixedInstancesPolicy:
        LaunchTemplate:
          LaunchTemplateSpecification: {{LaunchTemplateId: !Ref Nodes{number}}}
          Overrides: [{{InstanceType: p5.48xlarge}}]
"""
    for number in range(40)
)


def test_conditions_of_what_has_nothing_to_do_with_a_resource_do_not_multiply() -> None:
    """Forty fleets, each with a condition of its own: each is decided with its own condition alone."""
    text = (
        "Parameters:"
        + "".join(f"\n  P{number}: {{Type: String}}" for number in range(40))
        + "\nConditions:"
        + "".join(f"\n  C{number}: !Equals [!Ref P{number}, 'yes']" for number in range(40))
        + f"\nResources:{GROUPS}"
    )
    said = verdicts_of(text, TOKENS)
    assert [verdict.outcome for verdict in said] == [Outcome.NOT_COMPLIANT] * 40
    assert said[7].when == "P7 = 'yes'"


def test_conditions_that_name_each_other_twice_at_every_level_end() -> None:
    conditions = "".join(
        f"\n  C{number}: !And [!Condition C{number + 1}, !Condition C{number + 1}]" for number in range(40)
    )
    text = f"""
Conditions:{conditions}
  C40: !Equals [a, a]
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Condition: C0
    Properties: {{LaunchTemplateData: {{InstanceType: p5.48xlarge}}}}
"""
    assert [verdict.outcome for verdict in verdicts_of(text, TOKENS)] == [Outcome.NOT_COMPLIANT]
