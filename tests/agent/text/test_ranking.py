import pytest

from agent.text.ranking import count_shared_prefixes, fused, most_alike, query_terms, scores, stem


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "plans", "planned", "planning"),
        ("party", "parties"),
        ("bake", "bakes", "baked", "baking"),
        ("quick", "quickly"),
    ],
)
def test_forms_of_a_word_share_a_stem(words: tuple[str, ...]) -> None:
    assert len(set(map(stem, words))) == 1


@pytest.mark.parametrize(("first", "second"), [("tea", "team"), ("bus", "but"), ("2026", "202")])
def test_different_words_have_different_stems(first: str, second: str) -> None:
    assert stem(first) != stem(second)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("Where does she live?", "lives in Zürich"),
        ("What is planned for the party?", "planning parties in May"),
        ("zurich", "lives in Zürich"),
        ("我什么时候去北京？", "下周去北京出差"),
        ("喝什么茶", "喜欢喝绿茶"),
        ("茶", "喜欢喝绿茶"),
    ],
)
def test_text_with_rare_words_comes_first(query: str, best: str) -> None:
    texts = ["lives in Zürich", "planning parties in May", "what is for the dog", "下周去北京出差"]
    texts += ["喜欢喝绿茶", "我们什么时候开会"]
    ranks = scores(query_terms(query), texts)
    assert texts[ranks.index(max(ranks))] == best


def test_stop_words_count_only_without_other_words() -> None:
    assert query_terms("who is the dog of the house") == [stem("dog"), stem("house")]
    assert query_terms("who are you") == ["who", "are", "you"]
    assert scores(["x"], []) == []


def test_item_high_in_both_rankings_comes_first() -> None:
    assert fused("abc", "cad") == ["a", "c", "b", "d"]
    assert fused("ab", "") == ["a", "b"]
    assert fused() == []


def test_only_similar_texts_are_taken() -> None:
    assert most_alike([0.2, -1.0, 0.9, 0.0, 0.5], 2) == [2, 4]
    assert most_alike([-1.0, 0.0], 5) == []


def test_words_with_a_common_prefix_match_in_both_directions() -> None:
    assert count_shared_prefixes(query_terms("what allergies"), "Allergic to peanuts") == 1
    assert count_shared_prefixes(query_terms("a novelist"), "Reads novels") == 1
    assert count_shared_prefixes(query_terms("a book"), "keeps a fotobook") == 1
    assert (
        count_shared_prefixes(query_terms("what to do about the beetle"), "has a bee, what else")
        == 0
    )
