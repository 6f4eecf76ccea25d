#!/bin/sh
# Two libraries for SCIM's PATCH remove a family name, or leave two names or two primary addresses, without an error.
#
# RFC 7644, 3.5.2:
#
# 1. scim-patch 0.8.3 (npm): an add without a path, {"name": {"givenName": "Q"}}, removes the family name; with the path name it keeps
#    it (3.5.2.1: an add adds sub-attributes). Entra sends changes without a path. In scimmy 1.3.5 (npm) the add keeps it, and a
#    replace with the path name removes it, where scim-patch and scim2-models keep it.
# 2. scim-patch: names of attributes do not differ by case (RFC 7643, 2.1). Name.FamilyName makes another attribute beside name.
# 3. scim-patch: the type of an address does not differ by case either (RFC 7643, 8.7.1: caseExact). A replace of
#    emails[type eq "Work"].value adds a third address where there is one of type work.
# 4. scim-patch and scimmy: an address that becomes primary leaves another one primary (3.5.2: a server sets the other to false).
#    scimmy also adds an address that the user has already, a second time (3.5.2.1: no change).
#
# scim2-models 0.12.3 (Python) does all of them rightly. It hurts users whose names disappear, and whose mail goes to one of two primary
# addresses. Clients should send a complete name in each change, and names as the schema writes them. ldapd does as scim2-models does
# (web/scim/testdata/odd.txt).
#
# Seen on 2026-11-29 with Node 20 and Python 3.11. It needs npm and python3. It fails if one of the four changes.
set -eu
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts scim-patch@0.8.3 scimmy@1.3.5 > log 2>&1 || { cat log; exit 1; }
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check scim2-models==0.12.3 > log 2>&1 || { cat log; exit 1; }
cat > changes.json <<'C'
[{"op": "add", "value": {"name": {"givenName": "Q"}}},
 {"op": "add", "path": "name", "value": {"givenName": "Q"}},
 {"op": "replace", "path": "name", "value": {"givenName": "Q"}},
 {"op": "replace", "path": "Name.FamilyName", "value": "Z"},
 {"op": "replace", "path": "emails[type eq \"Work\"].value", "value": "z@x.example"},
 {"op": "replace", "path": "emails[type eq \"work\"].primary", "value": true},
 {"op": "add", "path": "emails", "value": [{"value": "a@x.example", "type": "work"}]}]
C
cat > user.json <<'C'
{"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "ann", "name": {"familyName": "Lee", "givenName": "Ann"},
 "emails": [{"value": "a@x.example", "type": "work"}, {"value": "b@x.example", "type": "home", "primary": true}]}
C
cat > change.mjs <<'J'
import fs from "node:fs"
import scimPatch from "scim-patch"
import SCIMMY from "scimmy"

const user = () => JSON.parse(fs.readFileSync("user.json"))
const print = (library, u) => {
  const { schemas, id, meta, ...rest } = JSON.parse(JSON.stringify(u))
  console.log(library, JSON.stringify(rest))
}
for (const change of JSON.parse(fs.readFileSync("changes.json"))) {
  console.log(JSON.stringify(change))
  print("scim-patch", scimPatch.scimPatch({ ...user(), meta: {} }, [change]))
  try {
    const u = new SCIMMY.Schemas.User({ ...user(), id: "1" })
    print("scimmy", await new SCIMMY.Messages.PatchOp({ schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], Operations: [change] }).apply(u) ?? u)
  } catch (e) {
    console.log("scimmy", e.scimType)
  }
}
J
node change.mjs > seen
cat > change.py <<'P'
import json
from scim2_models import PatchOp, User

for change in json.load(open("changes.json")):
    user = User.model_validate(json.load(open("user.json")))
    PatchOp[User].model_validate({"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [change]}).patch(user)
    print("scim2-models", json.dumps({k: v for k, v in user.model_dump().items() if k in ("name", "emails")}))
P
py/bin/python change.py >> seen
cat seen
cat > expected <<'X'
{"op":"add","value":{"name":{"givenName":"Q"}}}
scim-patch {"userName":"ann","name":{"givenName":"Q"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}]}
scimmy {"userName":"ann","name":{"familyName":"Lee","givenName":"Q"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}]}
{"op":"add","path":"name","value":{"givenName":"Q"}}
scim-patch {"userName":"ann","name":{"familyName":"Lee","givenName":"Q"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}]}
scimmy {"userName":"ann","name":{"familyName":"Lee","givenName":"Q"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}]}
{"op":"replace","path":"name","value":{"givenName":"Q"}}
scim-patch {"userName":"ann","name":{"familyName":"Lee","givenName":"Q"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}]}
scimmy {"userName":"ann","name":{"givenName":"Q"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}]}
{"op":"replace","path":"Name.FamilyName","value":"Z"}
scim-patch {"userName":"ann","name":{"familyName":"Lee","givenName":"Ann"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}],"Name":{"FamilyName":"Z"}}
scimmy noTarget
{"op":"replace","path":"emails[type eq \"Work\"].value","value":"z@x.example"}
scim-patch {"userName":"ann","name":{"familyName":"Lee","givenName":"Ann"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true},{"type":"Work","value":"z@x.example"}]}
scimmy noTarget
{"op":"replace","path":"emails[type eq \"work\"].primary","value":true}
scim-patch {"userName":"ann","name":{"familyName":"Lee","givenName":"Ann"},"emails":[{"value":"a@x.example","type":"work","primary":true},{"value":"b@x.example","type":"home","primary":true}]}
scimmy {"userName":"ann","name":{"familyName":"Lee","givenName":"Ann"},"emails":[{"value":"a@x.example","type":"work","primary":true},{"value":"b@x.example","type":"home","primary":true}]}
{"op":"add","path":"emails","value":[{"value":"a@x.example","type":"work"}]}
scim-patch {"userName":"ann","name":{"familyName":"Lee","givenName":"Ann"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true}]}
scimmy {"userName":"ann","name":{"familyName":"Lee","givenName":"Ann"},"emails":[{"value":"a@x.example","type":"work"},{"value":"b@x.example","type":"home","primary":true},{"value":"a@x.example","type":"work"}]}
scim2-models {"name": {"familyName": "Lee", "givenName": "Q"}, "emails": [{"value": "a@x.example", "type": "work"}, {"value": "b@x.example", "type": "home", "primary": true}]}
scim2-models {"name": {"familyName": "Lee", "givenName": "Q"}, "emails": [{"value": "a@x.example", "type": "work"}, {"value": "b@x.example", "type": "home", "primary": true}]}
scim2-models {"name": {"familyName": "Lee", "givenName": "Q"}, "emails": [{"value": "a@x.example", "type": "work"}, {"value": "b@x.example", "type": "home", "primary": true}]}
scim2-models {"name": {"familyName": "Z", "givenName": "Ann"}, "emails": [{"value": "a@x.example", "type": "work"}, {"value": "b@x.example", "type": "home", "primary": true}]}
scim2-models {"name": {"familyName": "Lee", "givenName": "Ann"}, "emails": [{"value": "z@x.example", "type": "work"}, {"value": "b@x.example", "type": "home", "primary": true}]}
scim2-models {"name": {"familyName": "Lee", "givenName": "Ann"}, "emails": [{"value": "a@x.example", "type": "work", "primary": true}, {"value": "b@x.example", "type": "home", "primary": false}]}
scim2-models {"name": {"familyName": "Lee", "givenName": "Ann"}, "emails": [{"value": "a@x.example", "type": "work"}, {"value": "b@x.example", "type": "home", "primary": true}]}
X
diff expected seen && echo "as described"
