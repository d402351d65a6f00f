#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# First process of the container: runs `sojourn harm` as an unprivileged user, for whom /results is his while it runs.
# Without root of its own (`podman run --user …`) it runs it as whoever it is.
set -u
[ "$(id -u)" = 0 ] || exec sojourn harm --results=/results "$@"
owner=$(stat -c %u:%g /results)
mode=$(stat -c %a /results)
# A run that was killed has left it so.
since=@$(($(date +%s) - 1))
[ "$(stat -c %G /results)" != sojourn ] || { owner=${owner%:*}:${owner%:*} mode=755 since=@0; }
# Of files that are neither the folder's owner's nor made here the owner stays.
give() { from=$1 to=$2; shift 2; find /results -mindepth 1 -user "$from" "$@" -exec chown -h "$to" {} +; }
# The folder itself keeps its owner, so that the next run after a kill knows whose all of it is.
give_back() { give sojourn "$owner" -newerct "$since"; chgrp "${owner#*:}" /results; chmod "$mode" /results; }
trap give_back EXIT
give "${owner%:*}" sojourn:sojourn
chgrp sojourn /results
chmod g+rwx /results
HOME=/home/sojourn setpriv --reuid=sojourn --regid=sojourn --init-groups --inh-caps=-all --bounding-set=-all \
    --no-new-privs -- sojourn harm --results=/results "$@" &
run=$!
trap 'kill -TERM "$run" 2>/dev/null' TERM INT
wait "$run"
code=$?
while kill -0 "$run" 2>/dev/null; do wait "$run"; code=$?; done # a signal ended the wait, not the run
exit "$code"
