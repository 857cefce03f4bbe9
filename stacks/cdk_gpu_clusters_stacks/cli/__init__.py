"""The command `gpu-clusters`, one module for each sub-command.

None starts Node; boto3 is imported by those that ask an account, when they do.
"""
