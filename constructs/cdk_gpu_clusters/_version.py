__version__ = "0.1.0"
#: Where the source, the issues and the releases are. Metadata, documentation and the schema take it from here.
REPOSITORY_URL = "https://github.com/cdk-gpu-clusters/cdk-gpu-clusters"
