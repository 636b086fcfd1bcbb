"""Synonyms: words that people use for what tools call differently. Knows English and the trade, no server.

Maps a word of a question to words that a definition may use in its place. The mapping goes one way: a question about a
"ticket" is about an "issue", while one about an "issue" is not only about a "ticket". Two words form a phrase.
"""

_LINES = """
add: create append insert
alert: alarm
alerts: alarms
answer: reply
apply: update
appointment: event
assign: update
bill: invoice
browse: navigate
bucket: s3
buckets: s3
bug: issue
build: pipeline workflow
cache: redis
calendar: events
call: invoke
captions: transcript
change: update modify edit
changed: diff changes
changes: diff
chargeback: dispute
chargebacks: disputes
chat: message channel
check: status
checkout: payment switch
ci: pipeline workflow actions jobs
client: customer
clone: copy fork
close: update
commit: record
compose: draft create
container: docker
containers: docker
copy: fork
cost: costs usage
cpu: resource usage
crash: error issue
credentials: secret key
customer: client
database: sql table schema
delete: remove
deploy: apply install
destroy: delete remove
dir: directory
directions: route
document: file page
download: pull fetch save get
dropdown: select option
email: mail message
emails: mail messages
error: issue exception
errors: issues exceptions
execute: run invoke
file: create
fill: type
find: search
fix: update
folder: directory
folders: directories
forget: delete
frequent: often
get: read retrieve fetch
google: "web search" search
grep: search
healthy: health
history: log commits
image: picture screenshot
images: pictures
insert: write
inspect: get describe details
instance: server
internet: web
k8s: kubernetes
kill: stop delete
know: search
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
metrics: usage statistics
modify: update edit
money: payment balance
move: transition
mr: "merge request"
nearby: places
new: create
note: page
notes: page
open: create navigate
people: users
person: user
photo: image screenshot
picture: image screenshot
pictures: images
post: send create
pr: "pull request"
press: click
print: get show
prs: "pull requests"
publish: create
put: write set upload
read: get
reboot: restart
record: log
remember: create add store
remove: delete
rename: move
repo: repository
repos: repositories
reschedule: update
restart: rerun
revert: reset
route: directions
run: execute
save: write create
schedule: create
screenshot: snapshot
script: code
see: get show list
send: post
set: update
sheet: spreadsheet
shelve: stash
show: get list view
sms: message
snippet: gist
sort: filter
sql: query
stage: add
start: run
store: save set
subtitles: transcript captions
summary: overview
switch: select checkout
tag: label
talk: message
task: issue
tasks: issues
terminate: stop
ticket: issue
tickets: issues
translate: convert
ttl: expire expiry
uncommitted: unstaged staged status
undo: reset revert
unsaved: uncommitted
upload: put
view: get show
visit: navigate
vm: instance
vulnerabilities: alerts security
vulnerability: alert security
webpage: page url
website: url page
wiki: page
write: create send
"""


def _table() -> dict[str, tuple[str, ...]]:
    found = {}
    for line in _LINES.strip().splitlines():
        word, _, rest = line.partition(": ")
        # Text between quotes is a phrase.
        parts = enumerate(rest.split('"'))
        found[word] = tuple(piece for index, part in parts for piece in ([part] if index % 2 else part.split()))
    return found


SYNONYMS = _table()
