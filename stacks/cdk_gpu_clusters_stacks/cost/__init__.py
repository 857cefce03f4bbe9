"""What a cluster costs: by its file, by what runs, by its bill, and for each job. Imports no CDK."""

from .account import Live, policy_for_cost, read_account
from .forecast import Forecast, forecast_cost
from .jobs import Bill, Given, bill_jobs
from .slurm import Accounting, NoAccounting, expand_host_list, read_accounting

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
