#!/bin/sh
# shop.sh SERVERS REQUESTS RESULTS UNREGISTERED: a service that sends notifications, in a shell with kcat and jq.
#
# Sends an order notification to two devices and news to three, reads the results, and deletes the device that is
# unregistered. Exits with 0 if everything is as expected. It uses only what README.md documents.
set -eu

servers=$1 requests=$2 results=$3 unregistered=$4

fail() {
    echo "shop.sh: $1" >&2
    exit 1
}

# The shop's devices: a token and the time of its last registration. The last token has been unregistered since 2020. Each
# run has new tokens, because the topic still contains the results of earlier runs.
devices=$(mktemp)
trap 'rm -f "$devices"' EXIT
now=$(date +%s)
run=$(od -An -v -N28 -tx1 /dev/urandom | tr -d ' \n')
for prefix in 00000001 00000002 00000003 00000004; do echo "$prefix$run ${now}000"; done >"$devices"
gone=fa174101$run
echo "$gone 1500000000000" >>"$devices"

# The partitioner of Java clients gives a device one partition with any client. The idempotent producer waits for all
# replicas, and its retries neither duplicate nor reorder records. A record is a line, so its JSON must be on one line.
produce() {
    kcat -P -b "$servers" -t "$requests" -X topic.partitioner=murmur2_random -X enable.idempotence=true "$@"
}

# Payload form: the key is the device token, and the value is the payload, which is sent byte for byte.
number=0
for token in "00000001$run" "00000002$run"; do
    jq -cn --arg title "Order $number" '{aps: {alert: {title: $title, body: "is on its way 🚚"}, sound: "default"}}' |
        produce -k "$token" -H apns-topic=com.example.shop -H "apns-collapse-id=order-$number" \
            -H "apns-expiration=$((now + 3600))"
    number=$((number + 1))
done

# Envelope form: one record for several devices, with one result for each device.
tail -n 3 "$devices" | cut -d ' ' -f 1 | jq -cRn '{
        device_tokens: [inputs],
        headers: {"apns-topic": "com.example.shop", "apns-push-type": "background"},
        payload: {aps: {"content-available": 1}}
    }' | produce

# Waits for $3 records of the shop's devices in topic $1, and prints one record for each value of jq's expression $2. Results
# are matched by device token, because kcat does not print the offsets of the records that it produced.
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

# A result that is repeated after a crash has the same `request`.
outcomes=$(await "$results" .request 5 | jq -r '"\(.outcome) \(.reason // "") \(.device_token)"')
printf '%s\n' "$outcomes" | cut -c 1-40

dead=$(await "$unregistered" .device_token 1)
token=$(printf '%s' "$dead" | jq -r .device_token)
since=$(printf '%s' "$dead" | jq '.unregistered_at_ms // empty')
[ -n "$token" ] || fail "the unregistered device is not among the dead tokens"
registered=$(grep "^$token " "$devices" | cut -d ' ' -f 2)
# A token that was registered again since then is valid.
if [ -n "$since" ] && [ -n "$registered" ] && [ "$registered" -lt "$since" ]; then
    grep -v "^$token " "$devices" >"$devices.new"
    mv "$devices.new" "$devices"
    printf 'forgotten: %.8s…, gone since %s\n' "$token" "$since"
fi

accepted=$(printf '%s\n' "$outcomes" | grep -c '^accepted  0000000[1-4]') || true
[ "$accepted" = 4 ] || fail "$accepted of 4 notifications were accepted"
printf '%s\n' "$outcomes" | grep -q "^unregistered Unregistered $gone" || fail "the unregistered device has no such result"
[ "$(wc -l <"$devices")" = 4 ] || fail "the unregistered device was not deleted"
echo "all is well"
