#!/bin/sh
# shop.sh SERVERS REQUESTS RESULTS UNREGISTERED: a service that pushes, in a shell with kcat and jq.
#
# Tells two customers that their order is on its way, three that there is news, reads what became of that, and forgets the
# device that is gone. Exits with 0 when everything came out as it should. It knows of the worker what README.md says.
set -eu

servers=$1 requests=$2 results=$3 unregistered=$4

fail() {
    echo "shop.sh: $1" >&2
    exit 1
}

# Where the shop keeps its devices: a token and when it was last registered. The last one has been gone since 2020. Each
# run has devices of its own: the results of earlier ones are in the topic, too.
devices=$(mktemp)
trap 'rm -f "$devices"' EXIT
now=$(date +%s)
run=$(od -An -v -N28 -tx1 /dev/urandom | tr -d ' \n')
for prefix in 00000001 00000002 00000003 00000004; do echo "$prefix$run ${now}000"; done >"$devices"
gone=fa174101$run
echo "$gone 1500000000000" >>"$devices"

# As clients in Java do, so that a device has one partition with any client. The idempotent producer waits for all replicas,
# and a retry of its neither repeats nor overtakes. A record is a line, so JSON has to be on one.
produce() {
    kcat -P -b "$servers" -t "$requests" -X topic.partitioner=murmur2_random -X enable.idempotence=true "$@"
}

# Payload form: the key is the device, the value what the device gets, byte for byte.
number=0
for token in "00000001$run" "00000002$run"; do
    jq -cn --arg title "Order $number" '{aps: {alert: {title: $title, body: "is on its way 🚚"}, sound: "default"}}' |
        produce -k "$token" -H apns-topic=com.example.shop -H "apns-collapse-id=order-$number" \
            -H "apns-expiration=$((now + 3600))"
    number=$((number + 1))
done

# Envelope form: one record for several devices, each of which gets a result of its own.
tail -n 3 "$devices" | cut -d ' ' -f 1 | jq -cRn '{
        device_tokens: [inputs],
        headers: {"apns-topic": "com.example.shop", "apns-push-type": "background"},
        payload: {aps: {"content-available": 1}}
    }' | produce

# Prints the topic's records of the shop's devices, one of each that jq's expression $2 takes for the same, once there are $3.
# (Others' records are in the topic, too. kcat does not tell the places that its records got, which results name.)
await() {
    for _ in $(seq 300); do
        found=$(kcat -C -q -e -b "$servers" -t "$1" -o beginning -f '%s\n' |
            jq -cs --rawfile devices "$devices" \
                "map(select((.device_token // \"none\") as \$token | \$devices | contains(\$token))) | unique_by($2) | .[]")
        [ "$(printf '%s' "$found" | grep -c .)" -lt "$3" ] || break
        sleep 0.2
    done
    printf '%s\n' "$found"
}

# At least once: what a worker that crashed repeats has the same `request`.
outcomes=$(await "$results" .request 5 | jq -r '"\(.outcome) \(.reason // "") \(.device_token)"')
printf '%s\n' "$outcomes" | cut -c 1-40

dead=$(await "$unregistered" .device_token 1)
token=$(printf '%s' "$dead" | jq -r .device_token)
since=$(printf '%s' "$dead" | jq '.unregistered_at_ms // empty')
[ -n "$token" ] || fail "the device that is gone is not among the dead tokens"
registered=$(grep "^$token " "$devices" | cut -d ' ' -f 2)
# One that was registered again since then is alive.
if [ -n "$since" ] && [ -n "$registered" ] && [ "$registered" -lt "$since" ]; then
    grep -v "^$token " "$devices" >"$devices.new"
    mv "$devices.new" "$devices"
    printf 'forgotten: %.8s…, gone since %s\n' "$token" "$since"
fi

accepted=$(printf '%s\n' "$outcomes" | grep -c '^accepted  0000000[1-4]') || true
[ "$accepted" = 4 ] || fail "$accepted of 4 notifications were accepted"
printf '%s\n' "$outcomes" | grep -q "^unregistered Unregistered $gone" || fail "the device that is gone has no such result"
[ "$(wc -l <"$devices")" = 4 ] || fail "the device that is gone was not forgotten"
echo "all is well"
