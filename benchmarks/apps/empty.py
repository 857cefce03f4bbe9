"""The least that a CDK app in Python takes: one stack without resources."""

import aws_cdk as cdk

app = cdk.App()
cdk.Stack(app, "Empty")
app.synth()
