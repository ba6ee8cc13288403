"""`firnline advise` against the real API over the twin of its store."""

from __future__ import annotations

import json

from firnline_cli.commands.look.advise import render_hints as advised

from tests.examples import make
from tests.kit.console_site import Site, firnline, on_a_terminal, said


def test_advise_says_what_was_found_and_what_to_do(site: Site) -> None:
    advice = make("table_advice/tiny_partitions")
    site.tell(advice, make("table_state/in_flight", advised=(advice.rule,)))
    for words in (("advise",), ("advise", "shop.orders")):
        answer = json.loads(said(site, *words, "--json"))
        text = on_a_terminal(lambda terminal, of=answer: terminal.print(advised(of, "")), 400)
        assert "shop.orders" in text
        assert f"tiny partitions: {advice.finding}  (for 3 h)" in text
        assert f"-> {advice.remedy}" in text
        head, row = (line.split("\t") for line in said(site, *words).splitlines())
        assert head == ["table", "rule", "finding", "remedy", "since"]
        assert row[:4] == ["shop.orders", advice.rule, advice.finding, advice.remedy]
    explained = said(site, "explain", "shop.orders")
    assert f"tiny partitions: {advice.finding}" in explained
    assert "firnline advise shop.orders" in explained
    assert json.loads(said(site, "advise", "--json"))["advice"][0]["rule"] == advice.rule


def test_without_advice_it_says_so_and_a_wrong_name_is_helped(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    assert "nothing to say about any table" in said(site, "advise")
    assert "nothing to say about shop.orders" in said(site, "advise", "shop.orders")
    result = firnline("advise", "shop.order", "--console", site.uri)
    assert result.exit_code == 1
    assert "Did you mean: shop.orders?" in result.output
