"""Whatever form a secret comes in, no text for people has it."""

from __future__ import annotations

import string

import pytest
from firnline_adapters.config.redaction import redact
from hypothesis import example, given
from hypothesis import strategies as st

SECRET = "c4n4ry-Pl4nted"
HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text",
    [
        f"redis://:{SECRET}@h:6379/0",
        f"redis://default:{SECRET}@h:6379/0 and http://h/v1",
        f"http://user:p@{SECRET}@catalog:8181/v1?x=1",
        f"GET 'https://{SECRET}@host/x'",
        f"Authorization: Bearer {SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}', 'Accept': '*/*'}}",
        f"{{'authorization': '{SECRET}'}}",
        f"headers: [('Authorization', 'Basic {SECRET}')]",
        f"Cookie: session={SECRET}; theme=1",
        f"https://a.blob.core.windows.net/c?sv=1&sig={SECRET}&se=2",
        f"https://b.s3.amazonaws.com/k?X-Amz-Credential=a&X-Amz-Signature={SECRET}",
        f"https://b.s3.amazonaws.com/k?X-Amz-Security-Token={SECRET}",
        f"http://h/oauth?access_token={SECRET}&x=1",
        f"s3.secret-access-key={SECRET}, s3.region=x",
        f'{{"s3.secret-access-key": "{SECRET}"}}',
        f"Map {{s3.session-token={SECRET}, uri=x}}",
        f"adls.sas-token.account.dfs.core.windows.net={SECRET}",
        f"gcs.oauth2.token: {SECRET}",
        f"password = '{SECRET}'",
        f"FIRNLINE_CATALOG_TOKEN={SECRET}",
        f"fs.s3a.access.key={SECRET}",
        f"sasl.jaas.config=x required username=u password={SECRET}",
        f"<SecretAccessKey>{SECRET}</SecretAccessKey>",
        f"client_secret={SECRET}&grant_type=client_credentials",
        f"oauth2 credential='id:{SECRET}'",
        f"An error: bad header x-api-key: {SECRET}",
        "-----BEGIN RSA PRIVATE KEY-----\nc4n4ry\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_secret_is_masked(text: str) -> None:
    found = redact(text)
    assert SECRET not in found
    assert "c4n4ry" not in found
    assert "***" in found


@pytest.mark.parametrize(
    "text",
    ["AKIAIOSFODNN7EXAMPLE", f"Signature={HEX}", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_-1"],
)
def test_what_is_known_by_its_own_form_is_masked(text: str) -> None:
    assert text.rpartition("=")[2] not in redact(f"x {text} y")


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8181/v1/namespaces/db/tables/t?snapshots=all",
        "s3://bucket/table@2/metadata/00001.json",
        "table db.t: 12 files, 3 tokens left; a basic rewrite of key columns",
        "action=ready master=local[*] tasks_at_once=4",
        "two signing keys have the same id",
        "keys_do_not_add_up: {'a': 1}",
    ],
)
def test_anything_else_stays(text: str) -> None:
    assert redact(text) == text


# What servers and libraries answer. Without these words nobody can mend what is wrong.
ERRORS = [
    "token server https://idp.example/realms/x/token: 401 invalid_client",
    "catalog lake: token server https://idp.example/token refuses us: 400 invalid_grant expired",
    "https://idp.example/v1/oauth/tokens: Read timed out. (read timeout=5)",
    "https://idp.example/x/token: HTTPSConnectionPool(host='idp.example', port=443): Max retries",
    "https://idp.example/x/token: [Errno 111] Connection refused",
    "POST /v1/oauth/tokens: 404 Not Found",
    "catalog lake: token server https://idp/x: no token: KeyError('access_token')",
    "no token: JSONDecodeError('Expecting value: line 1 column 1 (char 0)')",
    "cannot read /run/secrets/token: Permission denied",
    '{"error": "invalid_token", "error_description": "The access token expired"}',
    'WWW-Authenticate: Bearer error="invalid_token", error_description="expired"',
    'WWW-Authenticate: Bearer realm="lake"',
    "Basic authentication failed for user firnline",
    "401: Bearer authentication required",
    "ExpiredToken: The provided token has expired.",
    "ExpiredTokenException: Token has expired and refresh failed",
    "InvalidAccessKeyId: AWS does not know it",
    "An error occurred (InvalidAccessKeyId) when calling the PutObject operation: The AWS Access "
    "Key Id you provided does not exist in our records.",
    "InvalidIdentityToken: No OpenIDConnect provider found in your account",
    "<Code>SignatureDoesNotMatch</Code><Message>The request signature does not match</Message>",
    "credentials: Unable to locate them",
    "SASL authentication error: Authentication failed: Invalid username or password",
    "Failed to acquire SASL OAUTHBEARER token: timed out after 10 s",
    "TopicAuthorizationException: Not authorized to access topics: [table-commits]",
    "group authorization: Group authorization failed (GROUP_AUTHORIZATION_FAILED)",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "the password: invalid, or expired",
    "token_endpoint: https://idp.example/token",
    "sasl.oauthbearer.token.endpoint.url=https://idp.example/token is refused",
    '{"token_type": "bearer", "access_token_expires_in": 3600}',
]


@pytest.mark.parametrize("text", ERRORS)
def test_words_of_a_protocol_stay(text: str) -> None:
    assert redact(text) == text


PLACES = [
    "password: {}", "password={}", "password = '{}'", '{{"client_secret": "{}"}}',
    "the token: {} was sent", "token: {}\nnext", "x-api-key: {}", "session_token: {}, region: x",
    "s3.secret-access-key: {}", "Authorization: Bearer {}", "authorization: {}",
    "https://h/token?access_token={}", "GET https://h/token: 401 for password={}",
    "ExpiredToken: password={}", "https://u:{}@h/token: 401", "credential: {}",
    "/x/token: 401 token: {}", "no token: {}", "invalid password: {}", "<Secret>{}</Secret>",
]  # fmt: skip


@given(
    st.sampled_from(PLACES),
    st.text(string.ascii_letters + string.digits + "-_.~+", min_size=8, max_size=60).filter(
        lambda one: not one.isalpha() and one.strip("-_.~+")
    ),
)
@example("no token: {}", "hunter-two")
@example("the token: {} was sent", "401invalid")
@example("credential: {}", "invalid_client:s3cr3t")
@example("password: {}", "the-secret")
@example("password: {}", "correcthorse")
@example("password: {}", "KeyErrorish")
def test_a_secret_is_masked_in_whatever_sentence(place: str, secret: str) -> None:
    assert secret not in redact(place.format(secret))


@pytest.mark.parametrize(
    "piece", ["a", "://", "token", "token=", "Bearer ", "=", "-----BEGIN ", "<", "'"]
)
@pytest.mark.timeout(120)
def test_a_hostile_text_comes_to_an_end(piece: str) -> None:
    """A megabyte takes under a second; were a pattern quadratic, hours."""
    assert redact(piece * (1_000_000 // len(piece)))
