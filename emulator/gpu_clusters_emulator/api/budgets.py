"""AWS Budgets' API over the world: the budgets of stacks, and what a test sets as spent.

Source: AWS Budgets API reference, DescribeBudget and Spend (amounts are text).
"""

from __future__ import annotations

from ..faults import ApiError
from ..world import Json, World


def describe_budget(world: World, params: Json) -> Json:
    name = params["BudgetName"]
    found = world.find("AWS::Budgets::Budget", name)
    if found is None:
        raise ApiError("NotFoundException", f"Unable to get budget: {name} - the budget doesn't exist.")
    given = found.properties["Budget"]
    limit = given["BudgetLimit"]
    spent = {"Amount": world.spent.get(name, "0.0"), "Unit": limit["Unit"]}
    return {
        "Budget": {
            "BudgetName": name,
            "BudgetType": given["BudgetType"],
            "TimeUnit": given["TimeUnit"],
            "BudgetLimit": {"Amount": str(limit["Amount"]), "Unit": limit["Unit"]},
            "CalculatedSpend": {"ActualSpend": spent},
        }
    }
