#!/bin/sh
# Four libraries for SCIM filters select other users than the filter says, without an error.
#
# 1. scim2-parse-filter 0.2.10 (npm): what is in brackets is about one value (RFC 7644, 3.4.2.2: valuePath). It takes the brackets
#    away, so emails[type eq "work" and value eq "b@x"] selects a user whose address at work is a@x and who has b@x at home, and
#    emails[type eq "work" and not (value eq "b@x")] does not.
# 2. scim2-parse-filter and scim-query-filter-parser 2.0.4 (npm) compare times as strings: 00:30 at +01:00 is after 00:00 UTC, half
#    a second past is before. A client that asks for changes since a time (meta.lastModified gt) misses some.
# 3. scim2-parse-filter and scimmy 1.3.5 (npm): userName eq "Ann" does not select ann, although a userName does not differ by case
#    (RFC 7643, 8.7.1: caseExact). An identity provider that looks a user up before it creates it, creates a second one.
# 4. scim2-filter-parser 0.7.0 (Python, in django-scim2): or binds stronger than and if it comes first. A test of an attribute whose
#    name is in another case than in its map, or has its URN before it, is left out: USERNAME eq "ann" and active eq true selects
#    all who are active. In co, sw and ew an underscore stands for any character.
#
# It hurts who writes a SCIM server with them, and its clients. Test with these filters; names as the schema writes them; times in UTC
# with the same number of digits. ldapd refuses two tests of a value in brackets, which LDAP cannot make of one value
# (docs/scim.md).
#
# Seen on 2026-11-29 with Node 20 and Python 3.11. It needs npm and python3. It fails if one of the four changes.
set -eu
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts scim2-parse-filter@0.2.10 scim-query-filter-parser@2.0.4 scimmy@1.3.5 > log 2>&1 || { cat log; exit 1; }
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check scim2-filter-parser==0.7.0 sly==0.5 > log 2>&1 || { cat log; exit 1; }
cat > select.mjs <<'J'
import parseFilter from "scim2-parse-filter"
import queryFilter from "scim-query-filter-parser"
import SCIMMY from "scimmy"

const selects = (text, user, libraries) => {
  const by = {
    "scim2-parse-filter": () => parseFilter.filter(parseFilter.parse(text))(user),
    "scim-query-filter-parser": () => queryFilter.compileFilter(text)(user),
    scimmy: () => new SCIMMY.Types.Filter(text).match([user]).length == 1,
  }
  for (const l of libraries ?? Object.keys(by)) console.log(text, l, by[l]())
}
const ann = { userName: "ann", emails: [{ type: "work", value: "a@x" }, { type: "home", value: "b@x" }] }
selects('emails[type eq "work" and value eq "b@x"]', ann)
selects('emails[type eq "work" and not (value eq "b@x")]', ann, ["scim2-parse-filter", "scimmy"])
selects('userName eq "Ann"', ann)
selects('at gt "2026-01-01T00:00:00Z"', { at: "2026-01-01T00:30:00+01:00" })
selects('at gt "2026-01-01T00:00:00Z"', { at: "2026-01-01T00:00:00.5Z" })
J
node select.mjs > seen
cat > select.py <<'P'
import sqlite3
from scim2_filter_parser.queries import SQLQuery

db = sqlite3.connect(":memory:")
db.execute("create table users (name text, active text)")
db.executemany("insert into users values (?, ?)", [("ann", "FALSE"), ("bob", "TRUE"), ("a_n", "TRUE")])
for text in (
    'userName eq "ann" or userName eq "bob" and active eq true',
    'active eq true and userName eq "bob" or userName eq "ann"',
    'userName eq "ann" and active eq true',
    'USERNAME eq "ann" and active eq true',
    'urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ann" and active eq true',
    'userName sw "a_n"',
):
    q = SQLQuery(text, "users", {("userName", None, None): "name", ("active", None, None): "active"})
    print(text, [name for name, _ in db.execute(q.sql.replace("%s", "?"), q.params)])
P
py/bin/python select.py >> seen
cat seen
cat > expected <<'X'
emails[type eq "work" and value eq "b@x"] scim2-parse-filter true
emails[type eq "work" and value eq "b@x"] scim-query-filter-parser false
emails[type eq "work" and value eq "b@x"] scimmy false
emails[type eq "work" and not (value eq "b@x")] scim2-parse-filter false
emails[type eq "work" and not (value eq "b@x")] scimmy true
userName eq "Ann" scim2-parse-filter false
userName eq "Ann" scim-query-filter-parser true
userName eq "Ann" scimmy false
at gt "2026-01-01T00:00:00Z" scim2-parse-filter true
at gt "2026-01-01T00:00:00Z" scim-query-filter-parser true
at gt "2026-01-01T00:00:00Z" scimmy false
at gt "2026-01-01T00:00:00Z" scim2-parse-filter false
at gt "2026-01-01T00:00:00Z" scim-query-filter-parser false
at gt "2026-01-01T00:00:00Z" scimmy true
userName eq "ann" or userName eq "bob" and active eq true ['bob']
active eq true and userName eq "bob" or userName eq "ann" ['ann', 'bob']
userName eq "ann" and active eq true []
USERNAME eq "ann" and active eq true ['bob', 'a_n']
urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ann" and active eq true ['bob', 'a_n']
userName sw "a_n" ['ann', 'a_n']
X
diff expected seen && echo "as described"
