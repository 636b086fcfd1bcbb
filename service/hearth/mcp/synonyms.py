"""Words that people use for what tools call otherwise. Knows English and the trade, no server.

From a word of a question to what a definition may say in its place. It goes one way: a question about a "ticket" is
about an "issue", while one about an "issue" is not about a "ticket" only. Two words are a phrase there.
"""

_LINES = """
add: create append insert
answer: reply
appointment: event
apply: update
assign: update
bill: invoice
bug: issue
build: pipeline workflow
call: invoke
change: update modify edit
changed: diff changes
changes: diff
chat: message channel
check: status
checkout: payment switch
ci: pipeline workflow actions jobs
clone: copy fork
close: update
compose: draft create
copy: fork
cost: costs usage
crash: error issue
database: sql table schema
delete: remove
deploy: apply install
destroy: delete remove
dir: directory
document: file page
email: mail message
emails: mail messages
error: issue exception
errors: issues exceptions
execute: run invoke
file: create
find: search
folder: directory
folders: directories
forget: delete
get: read retrieve fetch
grep: search
history: log commits
image: picture screenshot
images: pictures
insert: write
inspect: get describe details
instance: server
k8s: kubernetes
kill: stop delete
link: url
log: logs
look: search get
ls: list
machine: instance
machines: instances
mail: email
mails: emails
make: create
meeting: event
merge: merge
modify: update edit
money: payment balance
move: transition
mr: "merge request"
new: create
note: page
notes: page
open: create get navigate
people: users
person: user
photo: image screenshot
picture: image screenshot
pictures: images
post: send create
pr: "pull request"
print: get show
prs: "pull requests"
publish: create
put: write set upload
read: get
record: log
remember: create add store
remove: delete
rename: move
repo: repository
repos: repositories
reschedule: update
restart: rerun
run: execute
save: write create
schedule: create
screenshot: snapshot
script: code
see: get show list
send: post
set: update
sheet: spreadsheet
show: get list view
sort: filter
start: run
store: save set
switch: select checkout
talk: message
task: issue
tasks: issues
terminate: stop
ticket: issue
tickets: issues
undo: reset revert
upload: put
view: get show
visit: navigate
webpage: page url
website: url page
wiki: page
write: create
"""


def _table() -> dict[str, tuple[str, ...]]:
    found = {}
    for line in _LINES.strip().splitlines():
        word, _, rest = line.partition(":")
        pieces = rest.split('"')
        # What stands between quotes is a phrase.
        found[word] = tuple(piece for index, part in enumerate(pieces) for piece in ([part] if index % 2 else part.split()))
    return found


SYNONYMS = _table()
