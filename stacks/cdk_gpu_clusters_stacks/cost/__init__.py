"""What a cluster costs: by its file, by what runs, by its bill, and for each job. Imports no CDK."""

from .account import Live, policy_for_cost, read_account
from .accounting import Accounting, NoAccounting
from .forecast import Forecast, forecast_cost
from .jobs import Bill, Given, bill_jobs
from .kueue import is_kueue, read_workloads
from .slurm import expand_host_list, read_sacct

__all__ = [
    "Accounting",
    "Bill",
    "Forecast",
    "Given",
    "Live",
    "NoAccounting",
    "bill_jobs",
    "expand_host_list",
    "forecast_cost",
    "policy_for_cost",
    "read_account",
    "read_accounting",
]


def read_accounting(text: str) -> Accounting:
    """Read the output of sacct, or workloads of Kueue.

    Args:
        text: What `sacct --parsable2` or `kubectl get workloads -o json` printed.

    Raises:
        NoAccounting: If it is neither, with all faults.
    """
    return read_workloads(text) if is_kueue(text) else read_sacct(text)
