"""`gpu-clusters advise`: memory of a model, what holds it, what that costs, and a cluster file for it."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import typer

from cdk_gpu_clusters.catalogue.regions import region as check_region
from cdk_gpu_clusters_stacks.advice import Advice, advice_text, advise_serving, advise_training

from . import complete, files, output
from .group import examples, new_app

_Mode = Literal["pretrain", "finetune", "inference"]
_Precision = Literal["fp16", "int8", "int4"]
_SIZES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_LEAST_PARAMETERS, _MOST_PARAMETERS = 10**6, 10**15

app = new_app()


def _parameters(text: str) -> int:
    match = re.fullmatch(
        r"([0-9]{1,15}(?:\.[0-9]{1,9})?(?:E\+?[0-9]{1,2})?)\s*([KMBT]?)", text.strip().upper(), re.ASCII
    )
    number = 0 if match is None else int(Decimal(match[1]) * _SIZES[match[2]])
    if not 0 < number <= _MOST_PARAMETERS:
        raise typer.BadParameter(f"{text!r} is no number of parameters up to 1000T, such as 70B, 350M or 7e9")
    if number < _LEAST_PARAMETERS:
        raise typer.BadParameter(f"{text!r} is {number:,} parameters, too few; write {text.strip()}B for billions")
    return number


@app.command(
    epilog=examples(
        "gpu-clusters advise --model-parameters 70B --mode pretrain",
        "gpu-clusters advise --model-parameters 8B --mode inference --replicas 16 -o cluster.yaml",
    )
)
def advise(
    parameters: Annotated[
        int,
        typer.Option("--model-parameters", parser=_parameters, metavar="NUMBER", help="Such as 70B or 350M."),
    ],
    mode: Annotated[_Mode, typer.Option(help="What is done with the model.")] = "pretrain",
    model: Annotated[
        str | None, typer.Option(help="Published model with its shape. Default: the nearest in size.")
    ] = None,
    region: Annotated[
        str, typer.Option(help="Region, for prices and offers.", autocompletion=complete.regions)
    ] = "us-east-1",
    type_name: Annotated[
        str | None,
        typer.Option("--type", help="Look at this instance type only.", autocompletion=complete.instance_types),
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Look at this number of nodes only.")] = None,
    sequence_length: Annotated[int, typer.Option(min=1, help="Tokens of a sequence or a request.")] = 4096,
    global_batch: Annotated[int, typer.Option(min=1, help="Training: sequences of one step, over all GPUs.")] = 1024,
    lora_rank: Annotated[
        int | None, typer.Option(min=1, help="Finetune: train LoRA adapters of this rank only.")
    ] = None,
    precision: Annotated[_Precision, typer.Option(help="Inference: how weights are stored.")] = "fp16",
    concurrent_requests: Annotated[
        int, typer.Option(min=1, help="Inference: requests that one copy works on at once.")
    ] = 8,
    replicas: Annotated[int, typer.Option(min=1, help="Inference: copies of the model.")] = 1,
    reserve: Annotated[float, typer.Option(min=0, max=0.9, help="Part of a GPU's memory that is left free.")] = 0.1,
    file: Annotated[Path | None, typer.Option("--output", "-o", help="Write a cluster file for the first row.")] = None,
    force: files.Force = False,
    as_json: output.Json = False,
) -> None:
    """Say how much memory a model takes, and which nodes hold it: an estimate, with its arithmetic."""
    if lora_rank is not None and mode != "finetune":
        output.refuse("advise: --lora-rank is for --mode finetune")
    if nodes is not None and mode == "inference":
        output.refuse("advise: --nodes is for training; --replicas is the number of served copies")
    check_region(region)
    if mode == "inference":
        advice = advise_serving(
            parameters,
            model=model,
            region=region,
            type_name=type_name,
            context_tokens=sequence_length,
            concurrent_requests=concurrent_requests,
            precision=precision,
            replicas=replicas,
            reserve=reserve,
        )
    else:
        advice = advise_training(
            parameters,
            model=model,
            region=region,
            type_name=type_name,
            nodes=nodes,
            sequence_length=sequence_length,
            global_batch_sequences=global_batch,
            lora_rank=lora_rank,
            reserve=reserve,
        )
    if as_json:
        output.write_document(output.as_json(advice))
    elif file is None or str(file) != output.STREAM:
        output.write(advice_text(advice))
        _write_table(advice)
    if not advice.rows:
        output.leave(1)
    if file is not None:
        from .init import write_starter

        write_starter(advice.starter(), file, force=force)


def _write_table(advice: Advice) -> None:
    if not advice.rows:
        output.write("nothing of the catalogue holds it\n", stderr=True)
        return
    numbers = ("nodes", "GPUs", "GB per device", "of", "USD/day")
    output.write_table(
        ("type", "nodes", "GPUs", "how", "GB per device", "of", "USD/day", "price of"),
        (
            (
                row.instance_type,
                str(row.nodes),
                str(row.gpus),
                row.how,
                f"{row.gb_per_device:.1f}",
                f"{row.usable_gb_per_device:.1f}",
                "unknown" if row.usd_per_day is None else f"{row.usd_per_day:,.2f}",
                row.price_as_of or "-",
            )
            for row in advice.rows
        ),
        right=numbers,
    )
    output.write("".join(f"{line}\n" for line in ("", *advice.notes)))
