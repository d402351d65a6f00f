#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Set-up of a machine: the Debian packages that are missing, then the locked Python environment.
# Idempotent; nothing is written outside apt's places and the cache ($SOJOURN_CACHE or ~/.cache/sojourn).
# The argument selects for what: `simulated` runs, labs in `real-time`, or `developing` (default); `figures` adds what
# writes images and films to the first. A later call adds to what earlier ones have installed.
set -eu
scope=${1:-developing}
case $scope in
    simulated) later='/^# REAL TIME/,$d' extras=checkout ;;
    figures) later='/^# REAL TIME/,$d' extras='checkout figures' ;;
    real-time) later='/^# DEVELOPING/,$d' extras='checkout browsers' ;;
    *) later= extras='checkout browsers figures players dask labgrid vmaf visqol dev' ;;
esac
checkout=$(cd "$(dirname "$0")/.." && pwd)
cache=${SOJOURN_CACHE:-$HOME/.cache/sojourn}
venv=$cache/venv
log=$cache/setup.log
mkdir -p "$cache"
if [ "$(stat -c %u "$cache")" != "$(id -u)" ]; then
    echo "setup: the cache $cache belongs to $(stat -c %U "$cache"), this runs as $(id -un):" \
        "run as its owner, or let SOJOURN_CACHE name a folder of your own" >&2
    exit 1
fi
exec 9>"$cache/setup.lock"
flock 9

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Runs a command with its output in the log; shows the log's end when it fails.
quietly() {
    "$@" >>"$log" 2>&1 </dev/null || { tail -n 15 "$log" >&2; fail "failed: $* (all of it: $log)"; }
}

# Sets as_root to what makes a command root's; in a terminal, sudo may ask for the password. Fails for anyone else.
find_root() {
    as_root=
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || return
    as_root='sudo -n'
    sudo -n true 2>/dev/null && return
    as_root=sudo
    [ -t 0 ] && [ -t 2 ] || return
    say "packages are missing:$missing"
    sudo -p 'setup: your password for sudo, to install them: ' true
}

install_packages() {
    command -v dpkg-query >/dev/null || { say "no dpkg here: install by hand what harness/packages.txt names"; return; }
    wanted=$(sed -e "$later" -e '/^#/d' "$checkout/harness/packages.txt")
    # shellcheck disable=SC2086
    installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
        sed -n 's/^installed //p' | tr '\n' ' ') "
    missing=
    for package in $wanted; do
        case $installed in *" $package "*) ;; *) missing="$missing $package" ;; esac
    done
    [ -n "$missing" ] || return 0
    if ! find_root; then
        say "packages are missing and only root can install them; run this, then the same command again:" >&2
        printf "\n  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends%s'\n\n" "$missing" >&2
        exit 1
    fi
    say "installing packages:$missing"
    quietly $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    # shellcheck disable=SC2086
    quietly $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $missing
    # Sojourn starts its own servers inside its namespaces; the packages' own would only take the host's ports.
    if [ -d /run/systemd/system ]; then
        for service in caddy irtt; do
            case " $missing " in *" $service "*) $as_root systemctl disable --quiet --now "$service" 2>>"$log" || true ;; esac
        done
    fi
}

# Prints the lines of the lock for `runtime` and extras.
locked() {
    "$python" -I -B "$checkout/hardware/images/lock.py" "$checkout/pyproject.toml" "$checkout/requirements.txt" "$@"
}

install_python() {
    python=/usr/bin/python3
    [ -x "$python" ] || python=python3
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    before=$(sed 's/ [^ ]*$//' "$venv/sojourn-checkout" 2>/dev/null || true)
    # What an earlier call with a wider scope installed stays, and follows the lock.
    for extra in $(sed -n 's/^extras //p' "$venv/sojourn-lock" 2>/dev/null); do
        case " $extras " in *" $extra "*) ;; *) extras="$extras $extra" ;; esac
    done
    mkdir -p "$venv"
    # shellcheck disable=SC2086
    locked runtime $extras >"$venv.lock"
    stamp="$version $(sha256sum "$venv.lock" | cut -c1-64)
extras $extras"
    if [ "$(cat "$venv/sojourn-lock" 2>/dev/null)" != "$stamp" ]; then
        # After an upgrade of Debian the old environment's packages are another Python's.
        if [ ! -x "$venv/bin/python" ] || [ ! -d "$venv/lib/python$version" ]; then
            say "making $venv for Python $version"
            quietly "$python" -m venv --clear "$venv"
            quietly "$venv/bin/python" -B -m pip --disable-pip-version-check uninstall --yes setuptools # only to build
        fi
        total=$(grep '^[a-z].*==' "$venv.lock" | grep -vc -e "'nt'" -e win32 -e '<')
        say "installing $total locked Python packages"
        : >"$log.pip"
        # An interrupted pip leaves packages of two locks, which no stamp may vouch for.
        printf 'incomplete\nextras %s' "$extras" >"$venv/sojourn-lock"
        # Modules are compiled when they are first used: most of them never are.
        "$venv/bin/python" -B -m pip --disable-pip-version-check install --require-hashes --no-deps --only-binary :all: --no-compile \
            -r "$venv.lock" >"$log.pip" 2>&1 </dev/null &
        pip=$!
        if [ -t 1 ]; then
            while kill -0 "$pip" 2>/dev/null; do
                printf '\rsetup: %s of %s fetched ' "$(grep -c -e '^Collecting' -e '^Requirement already' "$log.pip")" "$total"
                sleep 0.5 # redraws the counter; nothing waits on it
            done
            printf '\r\033[K'
        fi
        wait "$pip" || { tail -n 15 "$log.pip" >&2; fail "pip failed (all of it: $log.pip)"; }
        quietly "$venv/bin/python" -I -B "$checkout/hardware/images/slim.py" "$venv/lib/python$version/site-packages"
        rm -f "$venv/sojourn-checkout"
        printf '%s' "$stamp" >"$venv/sojourn-lock"
    fi
    rm "$venv.lock"
    # The `sojourn` command follows the checkout that was set up last, and its metadata.
    here="$checkout $(cat "$checkout/pyproject.toml" "$checkout/harness/missing_checkout.py" | sha256sum | cut -c1-64)"
    if [ "$(cat "$venv/sojourn-checkout" 2>/dev/null)" != "$here" ]; then
        quietly "$venv/bin/python" -B -m pip --disable-pip-version-check install --no-deps --no-build-isolation \
            --editable "$checkout"
        # Found where the checkout is gone, because .pth files are read in the order of their names.
        mkdir -p "$venv/sojourn-gone"
        cp "$checkout/harness/missing_checkout.py" "$venv/sojourn-gone/sojourn.py"
        printf '%s\n' "$venv/sojourn-gone" >"$venv/lib/python$version/site-packages/zz_sojourn_gone.pth"
        printf '%s' "$here" >"$venv/sojourn-checkout"
        if [ -n "$before" ] && [ "$before" != "$checkout" ]; then
            say "the command sojourn now runs $checkout; before, it ran $before"
        fi
    fi
}

# npm takes 200 MB, and only fetches the players, so an environment without developers' tools has it for a moment only.
install_players() {
    case " $extras " in *" players "*) return 0 ;; esac
    [ -f "$checkout/apps/standins/origin.py" ] || return 0 # an image has it in a later layer
    players=$(cat "$checkout/apps/standins/package-lock.json" "$checkout/apps/standins/origin.py" \
        "$checkout/apps/standins/players/package-lock.json" "$checkout/apps/players/__init__.py" | sha256sum | cut -c1-64)
    [ ! -d "$cache/web" ] || [ "$(cat "$venv/sojourn-players" 2>/dev/null)" != "$players" ] || return 0
    say "fetching the players"
    npm=$(mktemp -d "$cache/.npm-XXXXXX")
    trap 'rm -rf "$npm"' EXIT
    locked players >"$npm/lock.txt"
    quietly "$venv/bin/python" -B -m pip --disable-pip-version-check install --require-hashes --only-binary :all: \
        --no-compile --no-deps --target "$npm/packages" -r "$npm/lock.txt"
    PYTHONPATH=$npm/packages "$venv/bin/python" >>"$log" 2>&1 <<-'END' ||
		from sojourn.apps.players import ensure_players
		from sojourn.apps.standins.origin import ensure_player
		ensure_player()
		ensure_players()
	END
        { tail -n 1 "$log" >&2; fail "the players could not be fetched (all of it: $log)"; }
    rm -rf "$npm"
    printf '%s' "$players" >"$venv/sojourn-players"
}

# The origin sends by BBR, a module on Debian, and a user namespace cannot load it by itself.
load_bbr() {
    available=/proc/sys/net/ipv4/tcp_available_congestion_control
    if [ ! -r "$available" ] || grep -qw bbr "$available"; then return 0; fi
    if find_root; then $as_root modprobe tcp_bbr >>"$log" 2>&1 </dev/null || true; fi
    grep -qw bbr "$available" ||
        say "TCP BBR is not there: as root 'modprobe tcp_bbr', once each boot; without it give --origin-cc=cubic"
}

install_packages
install_python
install_players
if [ "$scope" != simulated ]; then load_bbr; fi
