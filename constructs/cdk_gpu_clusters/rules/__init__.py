"""Rules as pure functions: plain values in, plain values or findings out.

`check_*` functions return every finding at once; `plan_*` and `choose_*` functions raise `ConfigError`. No CDK and
no boto3 here. Modules are imported by their full names, so that each costs only what it needs.
"""
