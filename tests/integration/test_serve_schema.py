"""Requests made from the OpenAPI document, valid and invalid: answers are as the document says, and none is a 500."""

from collections import Counter

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from datamux.serve.background import running
from serving import make_predictor, make_service


@pytest.fixture(scope="module", params=["sequence", "token"])
def url(request, tmp_path_factory):
    predictor = make_predictor(tmp_path_factory.mktemp(request.param), request.param)
    with running(make_service(predictor)) as url:
        yield url
        assert requests.get(f"{url}/health", timeout=10).json() == {"status": "ok"}


@pytest.fixture(scope="module")
def document(url):
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_every_answer_of_every_route_is_as_the_document_says(document, mode):
    for path in sorted(document):
        ask_as_documented(document, path, mode)


def test_the_document_has_the_routes_of_the_kind_of_model(document):
    assert {"/predict", "/health"} < set(document)
    assert len({"/classify", "/tag"} & set(document)) == 1


def ask_as_documented(document, path, mode):
    (operation,) = document[path].values()
    statuses = Counter()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(case):
        answer = case.call(timeout=10)
        statuses[answer.status_code] += 1
        if "takes no pairs" not in answer.text:  # the document cannot say that a tagger takes none
            case.validate_response(answer)

    try:
        check()
    except Unsatisfiable:
        assert mode is schemathesis.GenerationMode.NEGATIVE, "a route without a body cannot be asked wrongly"
    assert not any(status >= 500 for status in statuses), f"{path}: {statuses}"
