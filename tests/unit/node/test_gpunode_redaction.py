"""Secrets are found by gitleaks' public forms and by name; what comes from outside is one safe line."""

from __future__ import annotations

import time

import pytest

from cdk_gpu_clusters.node.gpunode.quoting import one_line
from cdk_gpu_clusters.node.gpunode.redaction import REDACTED, redacted

SECRET = "s3cr3tV4lu3"
# The example credentials of AWS's and Hugging Face's documentation, and forms of gitleaks' rules.
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
        ('"SecretAccessKey" : "wJalrXUtnFEMI/K7MDENG", "Expiration": "x"', "wJalrXUtnFEMI"),
        ("aws configure set aws_secret_access_key wJalrXUtnFEMI", "wJalrXUtnFEMI"),
        ("aws_session_token = IQoJb3JpZ2luX2Vj", "IQoJb3JpZ2luX2Vj"),
        ("key id ASIAIOSFODNN7EXAMPLE was used", "ASIAIOSFODNN7EXAMPLE"),
        (f"curl -H 'Authorization: Bearer {SECRET}' https://h", SECRET),
        (f"bearer {SECRET}", SECRET),
        (f"kubelet: {JWT} expired", JWT[40:]),
        ("k8s-aws-v1.aHR0cHM6Ly9zdHMudXMtZWFzdC0x", "aHR0cHM6"),
        ("python train.py hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh", "AbCdEfGh"),
        ("git clone https://ghp_0123456789abcdefghijABCDEFGHIJ012345@github.com/x", "ghp_0"),
        ("remote: glpat-abcdefghijklmnopqrst", "abcdefghij"),
        ("OPENAI sk-proj-abcdefghijklmnopqrstuvwx", "abcdefgh"),
        (f"mysql --password {SECRET} -h db", SECRET),
        (f"server --api-key={SECRET} --port 1", SECRET),
        (f"docker run -e WANDB_API_KEY={SECRET} image", SECRET),
        (f"curl -u me:{SECRET} http://h", SECRET),
        (f"postgresql://me:{SECRET}@db/x", SECRET),
        (f"https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature={SECRET}&x=1", SECRET),
        (f"?X-Amz-Security-Token={SECRET}", SECRET),
        (f'{{"msg": "{{\\"password\\": \\"two {SECRET}\\"}}"}}', SECRET),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY-----\n", SECRET),
        (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n", SECRET),
        (f"{SECRET}\n-----END EC PRIVATE KEY-----\n", SECRET),
        (f"HOME=/root\0MYSQL_PWD={SECRET}\0LANG=C", SECRET),
    ],
)
def test_secret_is_left_out_and_the_rest_stays(text: str, secret: str) -> None:
    clean = redacted(f"before\n{text}\nafter" if "-----END EC" not in text else f"{text}\nafter")
    assert secret not in clean
    assert REDACTED in clean
    assert clean.endswith("after") or "-----BEGIN OPENSSH" in text


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:07:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "GPU 00000000:07:00.0: Row remapping pending: Yes",
        "PWD=/root vllm serve --tokenizer meta/llama --max-tokens 512 --model /fsx/keys",
        "GPU_EVIDENCE_URI='s3://logs/evidence/trainers'",
        "Total amount of monitored keys: 4; https://h:8080/x?y=1",
    ],
)
def test_what_diagnoses_a_fault_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "piece",
    ["a", "token", "--", "--a ", "ey", "curl ", "://", "-----BEGIN PRIVATE KEY-----\n", "token='", " ", "\x1b["],
)
def test_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    begin = time.process_time()
    redacted(text)
    one_line(text)
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("GPU 0\nis\tlost\r\n", "GPU 0 is lost"),
        ("\x1b[2J\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("a\x00b\x07c\x9bd", "a b c d"),
        ("\udc80half", "half"),
        ("\u202eevil\u2066", "evil"),
        ("über 50 µm", "über 50 µm"),
        ("", ""),
    ],
)
def test_line_is_printable(text: str, line: str) -> None:
    assert one_line(text) == line
    one_line(text).encode()


def test_long_text_is_cut_visibly() -> None:
    assert one_line("x" * 2_000, 10) == "xxxxxxx..."
    assert one_line("x" * 10, 10) == "x" * 10
    assert len(one_line("\n" * 10**6 + "late", 400)) <= 400
