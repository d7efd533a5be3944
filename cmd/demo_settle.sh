#!/bin/sh
# settle.sh CUSTOMER AMOUNT: one entry in the ledger, whatever is repeated.
# The entry's name is the idempotency key, which is the same on every attempt,
# and it appears in one step: half an entry is never seen.
echo "$1" >> started
case $2 in *[!0-9.]*) echo "$1: no amount: $2" >&2; exit 65;; esac
sleep 0.02
echo "$1 $2" > "ledger/.$$" && mv "ledger/.$$" "ledger/$BATCHQ_IDEMPOTENCY_KEY"
