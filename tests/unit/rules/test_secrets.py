"""Secrets in environments, commands and user data, by value and by name, beside what detect-secrets finds."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import transient_settings

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.model_server import ServerPod, check_server
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.rules.secrets import (
    FETCH,
    check_container_secrets,
    check_secret_arguments,
    check_secret_variables,
    check_secrets,
    find_secrets,
)

REPOSITORY = Path(__file__).parents[3]
ALPHANUMERIC, HEXADECIMAL = string.ascii_letters + string.digits, "0123456789abcdef"


def made(length: int, characters: str = ALPHANUMERIC) -> str:
    """A value as no issuer gave it out; the texts of this file hold none, so that scanners stay silent."""
    return "".join(random.Random(length).choices(characters, k=length))


#: One value of each issuer, in the form that its own page or gitleaks' table states.
VALUES = {
    "AWS access key": "AKIA" + made(16, string.ascii_uppercase),
    "AWS session key": "ASIA" + made(16, string.ascii_uppercase),
    "Bedrock": "ABSK" + made(120),
    "private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
    "Hugging Face": "hf_" + made(34, string.ascii_letters),
    "NVIDIA": "nvapi-" + made(64),
    "Weights & Biases": "wandb_v1_" + made(40),
    "Weights & Biases, in its command": "wandb login --relogin " + made(40, HEXADECIMAL),
    "Groq": "gsk_" + made(52),
    "xAI": "xai-" + made(80),
    "Replicate": "r8_" + made(37),
    "LangSmith": "lsv2_pt_" + made(32, HEXADECIMAL) + "_" + made(10, HEXADECIMAL),
    "OpenAI": "sk-proj-" + made(58) + "T3Blbk" + "FJ" + made(58),
    "OpenAI, old": "sk-" + made(20) + "T3Blbk" + "FJ" + made(20),
    "Anthropic": "sk-ant-api03-" + made(93) + "AA",
    "Google": "AIza" + made(35),
    "GitHub": "ghp_" + made(36),
    "GitHub, fine-grained": "github_pat_" + made(82),
    "GitLab": "glpat-" + made(20),
    "Slack": "xoxb-" + made(12, string.digits) + "-" + made(12, string.digits) + made(24),
    "Slack webhook": "https://hooks.slack.com/services/T" + made(8) + "/B" + made(8) + "/" + made(24),
    "Stripe": "sk_live_" + made(24),
    "npm": "npm_" + made(36),
    "npm, in .npmrc": "//registry.npmjs.org/:_authToken=npm_" + made(36),
    "npm, old": "//registry.npmjs.org/:_authToken=12345678-1234-1234-1234-" + made(12, HEXADECIMAL),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + made(70),
    "Docker Hub": "dckr_pat_" + made(27),
    "Vault": "hvs." + made(95),
    "Terraform": made(14) + ".atlasv1." + made(67),
    "Pulumi": "pul-" + made(40, HEXADECIMAL),
    "Prefect": "pnu_" + made(36),
    "Tailscale": "tskey-auth-" + made(12) + "CNTRL-" + made(32),
    "Artifactory": "AKCp" + made(69),
    "Artifactory, reference": "cmVmd" + made(59),
    "Sentry": "sntryu_" + made(64, HEXADECIMAL),
    "Microsoft Entra ID": made(3) + "8Q~" + made(34),
    "Databricks": "dapi" + made(32, HEXADECIMAL),
    "DigitalOcean": "dop_v1_" + made(64, HEXADECIMAL),
    "Grafana": "glsa_" + made(32) + "_" + made(8, HEXADECIMAL),
    "Perplexity": "pplx-" + made(48),
    "SendGrid": "SG." + made(22) + "." + made(43),
    "Twilio": "SK" + made(32, HEXADECIMAL),
    "Mailchimp": made(32, HEXADECIMAL) + "-us12",
    "Square": "sq0csp-" + made(43),
    "Telegram": made(10, string.digits) + ":AA" + made(33),
    "Azure Storage": "AccountKey=" + made(86) + "==",
    "JSON Web Token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + made(43),
    "EKS": "k8s-aws-v1." + made(60),
    "age": "AGE-SECRET-KEY-1" + made(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "URL": "https://me:hunter22@example.com/x",
    "bearer": "Authorization: Bearer abcdefgh12",
    "curl": "curl -u me:hunter22 https://example.com",
    "sshpass": "sshpass -p hunter22 ssh host",
    "chpasswd": "echo root:hunter22 | chpasswd",
}

#: Detectors of detect-secrets that decide by the form of a value; the others guess by entropy.
DETECTORS = [
    "AWSKeyDetector",
    "AzureStorageKeyDetector",
    "BasicAuthDetector",
    "GitHubTokenDetector",
    "GitLabTokenDetector",
    "JwtTokenDetector",
    "MailchimpDetector",
    "NpmDetector",
    "OpenAIDetector",
    "PrivateKeyDetector",
    "PypiTokenDetector",
    "SendGridDetector",
    "SlackDetector",
    "SquareOAuthDetector",
    "StripeDetector",
    "TelegramBotTokenDetector",
    "TwilioKeyDetector",
]


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_are_found_under_any_name_and_never_repeated(value: str) -> None:
    [variable] = check_secret_variables({"FOO": value})
    assert (variable.id, variable.severity.value, variable.path) == ("GPU-UD-002", "error", "FOO")
    [(place, argument)] = check_secret_arguments(["--port", "80", value])
    assert place == 2
    [line] = check_secrets(f"#!/bin/sh\necho begins\nserve {value}\n")
    assert line.got == "line 3"
    for finding in (variable, argument, line):
        assert value not in str(finding)
        assert "Secrets Manager or SSM Parameter Store" in finding.fix


@pytest.mark.parametrize("detector", DETECTORS)
def test_each_form_that_detect_secrets_knows_is_among_the_values(detector: str) -> None:
    with transient_settings({"plugins_used": [{"name": detector}]}):
        found = {name for name, value in VALUES.items() if list(scan_line(f'token = "{value}"'))}
    assert found
    assert "Hugging Face" not in found, "if it knows them by now, it may decide instead of our table"


@pytest.mark.parametrize(
    "variable",
    [
        "DB_PASSWORD=hunter22",
        "PGPASSWORD=hunter22",
        "MYSQL_PWD=hunter22",
        "DB_PASS=hunter22",
        "WANDB_API_KEY=abcdef",
        "NGC_APIKEY=abcdef",
        "AWS_SECRET_ACCESS_KEY=abcdefgh/ijkl",
        "HF_TOKEN=abcdefgh",
        "clientSecret=abcdefgh",
        "accessToken=abcdefgh",
        "PASSWORD=123456",
        "REGISTRY_CREDENTIALS=me:hunter",
        "SIGNING_KEY2=abcdefgh",
        "KAGGLE_KEY=abcdefgh",
    ],
)
def test_names_of_secrets_with_a_plain_value_are_found(variable: str) -> None:
    name, _, value = variable.partition("=")
    [finding] = check_secret_variables({name: value})
    assert finding.cause.startswith(f"this looks like the value of {name}, ")
    for line in (f"export {variable}", f'{name}: "{value}"', f'{{"{name}": "{value}"}}', f"run --{name} {value}"):
        assert [secret.value for secret in find_secrets(f"#!/bin/sh\n{line}\n")] == [value], line
    assert [place for place, _ in check_secret_arguments([f"--{name}", value])] == [1]
    assert [place for place, _ in check_secret_arguments([f"--{name}={value}"])] == [0]


@pytest.mark.parametrize(
    "line",
    [
        "export HF_TOKEN=$(aws secretsmanager get-secret-value --secret-id hf --query SecretString --output text)",
        "API_KEY=`cat /run/key`",
        "TOKEN=$1 PASSWORD=${PASSWORD:-}",
        "--max-num-batched-tokens 8192 --tokenizer mistral --tokenizer-mode auto",
        "MAX_TOKEN=4096 TOKENIZERS_PARALLELISM=false",
        "OPENAI_API_KEY=EMPTY",
        "EOS_TOKEN=endoftext",
        "accelerate launch textual_inversion.py --placeholder_token=cat-toy --initializer_token=animal",
        "docker run alpine-r8_arm xai-org/grok-1 pul-request gsk_report.csv wandb login --host https://wandb.example.com",
        "SECRET_NAME=prod/db SECRET_ARN=arn:aws:secretsmanager:us-east-1:111122223333:secret:db",
        "HF_TOKEN_PATH=/run/token AWS_SHARED_CREDENTIALS_FILE=/root/.aws/credentials",
        "docker login --username me --password-stdin",
        "kubectl create secret generic db --from-file=password=/run/db",
        "PASSWORD=xxxxxxxx API_KEY=******",
        'if [ "$token" = "sesame" ]; then',
        "token = get_token()",
        'secret = os.environ["DB"]',
        "ghcr.io/me/my-token:latest",
        "pip install hf_transfer sk-learn-contrib-extra-tools",
        "arn:aws:secretsmanager:us-east-1:111122223333:secret:db-AbCdEf",
    ],
)
def test_references_counts_and_placeholders_are_no_secrets(line: str) -> None:
    assert find_secrets(f"#!/bin/sh\n{line}\n") == []


def test_what_the_repository_shows_to_users_holds_no_secret() -> None:
    files = [*REPOSITORY.glob("examples/**/*"), *REPOSITORY.glob("docs/*.md"), REPOSITORY / "README.md"]
    texts = [file for file in files if file.suffix in {".md", ".py", ".sh", ".yaml", ".json"}]
    assert len(texts) > 50
    found = [(file.name, one.name) for file in texts for one in find_secrets(file.read_text(encoding="utf-8"))]
    assert found == [("cluster-file.md", "STORAGE_KEY")], "the example of a text that only looks like a secret"


@pytest.mark.parametrize("accepted", ["STORAGE_KEY", "west-2"])
def test_what_only_looks_like_a_secret_is_accepted_by_its_name_or_value(accepted: str) -> None:
    variables = {"STORAGE_KEY": "west-2", "API_KEY": "abcdefgh"}
    assert [one.path for one in check_secret_variables({"MASTER_KEY": "west-2"})] == ["MASTER_KEY"]
    assert [one.path for one in check_secret_variables(variables, not_secret=[accepted])] == ["API_KEY"]
    assert check_secrets("MASTER_KEY=west-2", not_secret=["MASTER_KEY"]) == []
    assert check_secret_arguments(["--master-key", "west-2"], not_secret=["--master-key"]) == []
    assert "add MASTER_KEY to not_secret" in check_secrets("MASTER_KEY=west-2")[0].fix


def test_containers_are_checked_at_their_keys() -> None:
    found = check_container_secrets({"HF_TOKEN": "abcdefgh"}, ["serve", "--api-key", "sesame"], fix=FETCH)
    assert [one.path for one in found] == ["environment.HF_TOKEN", "command[2]"]


def test_pods_hold_no_secret() -> None:
    pool = node_pool("chat", instance_type="g6.xlarge", node_count=1)
    server = ServerPod(image="vllm:v1", environment={"HF_TOKEN": "abcdefgh"}, command=["--api-key", "sesame"])
    found = [one for one in check_server(pool, server) if one.id == "GPU-UD-002"]
    assert [one.path for one in found] == ["environment.HF_TOKEN", "command[1]"]
    assert "Kubernetes Secret" in found[0].fix
    allowed = ServerPod(
        image="vllm:v1", environment=server.environment, command=server.command, not_secret=["HF_TOKEN", "--api-key"]
    )
    assert check_server(pool, allowed) == []
    with pytest.raises(ConfigError, match=r"GPU-UD-002: environment\.WANDB_API_KEY"):
        torchrun_job(
            "a", pool, image="x:1", node_count=1, command=["train.py"], environment={"WANDB_API_KEY": "abcdef"}
        )


def test_a_form_over_several_arguments_is_found() -> None:
    key = made(40, HEXADECIMAL)
    assert [number for number, _ in check_secret_arguments(["wandb", "login", "--relogin", key])] == [3]
    assert check_secret_arguments(["wandb", "login", "--relogin"]) == []
    assert check_secret_arguments(["git", "show", key]) == []
