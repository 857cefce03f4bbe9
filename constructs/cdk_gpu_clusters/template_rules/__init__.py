"""GPU rules over any CloudFormation template.

One engine, three ways in: `gpu-clusters lint`, a CDK validation plugin (`plugin`) and a rule package for cfn-lint
(`cfnlint_rules`). Nothing here starts Node but `plugin`. How to write a rule: `docs/decisions/0009-own-rule-engine.md`.
"""
