"""What requests and answers look like. Requests are checked with these; answers are only described by them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel
from pydantic.json_schema import models_json_schema

TextOrPair = Annotated[list[str], Field(min_length=1, max_length=2, fail_fast=True)]
Batch = Annotated[list[TextOrPair], Field(min_length=1, fail_fast=True)]
TextList = Annotated[list[str], Field(min_length=1, fail_fast=True)]
WordLists = Annotated[
    list[Annotated[list[str], Field(min_length=1, fail_fast=True)]], Field(min_length=1, fail_fast=True)
]


def _whole(value: Any) -> Any:
    """In JSON, 2.0 is a whole number, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
TopK = Annotated[
    Annotated[int, Field(ge=1), BeforeValidator(_whole)] | None,
    Field(description="Give only the best labels; without it, all of them."),
]
Mux = Annotated[
    bool, Field(description="May these texts share a pass with other texts of the same tenant? false: with none.")
]
Truncate = Annotated[bool, Field(description="Cut texts that are too long; false: refuse them with status 422.")]
RawScores = Annotated[bool, Field(description="Give the model's raw outputs instead of scores from 0 to 1.")]


class Strict(BaseModel):
    """Types are taken as they are: "true" is not true. Unknown fields are ignored, as other servers do."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Parameters(Strict):
    """What `huggingface_hub.InferenceClient` sends."""

    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None
    top_k: TopK = None
    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = Field(
        default=None,
        description="Words are always joined to spans, with none too, and a word has the tag of its first token.",
    )
    ignore_labels: list[str] | None = Field(default=None, description="Kinds of spans to leave out.")
    stride: Whole | None = Field(default=None, description="Has no effect: long texts are cut.")


class PredictRequest(Strict):
    """A text, a pair of texts, or a batch: the shape of text-embeddings-inference."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"inputs": "A warm, quick and funny film."},
                {"inputs": [["A warm, quick and funny film."], ["Dull."]]},
            ]
        }
    )
    inputs: str | TextOrPair | Batch = Field(
        description='"a text", ["a text", "its pair"], or a batch: [["a text"], ["a text", "its pair"]].'
    )
    raw_scores: RawScores = False
    truncate: Truncate = True
    truncation_direction: Literal["right", "Right"] = "right"
    top_k: TopK = None
    mux: Mux = True
    parameters: Parameters | None = None


class ClassifyRequest(Strict):
    """What clients of infinity and of vLLM send."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"input": ["A warm, quick and funny film.", "Dull."], "raw_scores": False}]}
    )
    input: str | TextList = Field(description='"a text" or ["a text", "another text"].')
    model: str | None = Field(default=None, description="Has no effect: the server has one model.")
    raw_scores: RawScores = False
    truncate: Truncate = True
    top_k: TopK = None
    mux: Mux = True


class TagRequest(Strict):
    """Texts, or lists of words."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"inputs": "Anna lives in Paris."},
                {"inputs": ["Anna lives in Paris.", "The bank of Lisbon said no."]},
                {"inputs": [["Anna", "lives", "in", "Paris", "."]]},
            ]
        }
    )
    inputs: str | TextList | WordLists = Field(
        description="one text, several texts, or lists of words (offsets then count in the words joined by spaces)."
    )
    truncate: Truncate = True
    mux: Mux = True


class Score(BaseModel):
    """A label and how sure the model is of it."""

    label: str
    score: float


class Span(BaseModel):
    """Part of a text, from character `start` to before `end`."""

    entity_group: str
    score: float
    word: str
    start: int
    end: int


class PredictAnswer(RootModel[list[Score] | list[list[Score]] | list[Span] | list[list[Span]]]):
    """Flat for one text; a list of lists for a batch; a list in a list for one text sent with `parameters`."""


class Usage(BaseModel):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class ClassifyAnswer(BaseModel):
    """The shape of infinity."""

    object: Literal["classify"]
    id: str
    model: str
    created: int
    data: list[list[Score]]
    usage: Usage


class Pooled(BaseModel):
    """The scores of one text, in the order of the model's labels."""

    index: int
    label: str
    probs: list[float]
    num_classes: int


class PooledAnswer(BaseModel):
    """The shape of vLLM."""

    object: Literal["list"]
    id: str
    model: str
    created: int
    data: list[Pooled]
    usage: Usage


class TagAnswer(RootModel[list[Span] | list[list[Span]]]):
    """Flat for one text, a list of lists for several."""


REQUESTS: tuple[type[BaseModel], ...] = (PredictRequest, ClassifyRequest, TagRequest)


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """For OpenAPI: what a route reads. The route parses it itself, which is faster than FastAPI's way."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    examples = {str(number): {"value": value} for number, value in enumerate(examples_of(model), 1)}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema, "examples": examples}}}
    }


def examples_of(model: type[BaseModel]) -> list[Any]:
    extra = model.model_config.get("json_schema_extra")
    examples: Any = extra.get("examples", []) if isinstance(extra, dict) else []
    return list(examples)


def request_schemas() -> dict[str, Any]:
    """The schemas that `request_body` refers to."""
    _, found = models_json_schema(
        [(model, "validation") for model in REQUESTS], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Any] = found["$defs"]
    return schemas
