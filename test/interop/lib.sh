# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For the `run` programs of the suites; sourced, not run.

# skip_without SUITE PROGRAM...: ends the suite with one skipped case when a program of its toolchain is
# not there, so that the count shows what was not tested on this machine, and why.
skip_without() {
    local suite=$1 program
    shift
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        printf '1..1\nok 1 - %s # skip no %s on this machine\n' "$suite" "$program"
        exit 0
    done
}

# skip_with_old_node SUITE: likewise when node is there but too old for the suites (--test-force-exit).
skip_with_old_node() {
    local is_new='const [a, b] = process.versions.node.split("."); process.exit(+(+a + b / 100 < 20.14))'
    if node -e "$is_new"; then return; fi
    printf '1..1\nok 1 - %s # skip node %s is older than 20.14\n' "$1" "$(node --version)"
    exit 0
}

# is_fresh STAMP FILE...: true when the packages that these lock files name are installed already.
is_fresh() {
    local stamp=$1
    shift
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(cat "$@" | sha256sum)" ]
}

# mark_fresh STAMP FILE...: to be called after the packages were installed.
mark_fresh() {
    local stamp=$1
    shift
    cat "$@" | sha256sum >"$stamp"
}

# install_npm DIRECTORY: installs exactly what DIRECTORY/package-lock.json names into $INTEROP_BUILD and
# lets node find it there. No install scripts: nothing of these packages needs one.
install_npm() {
    local lock=$1/package-lock.json stamp=$INTEROP_BUILD/installed
    export NODE_PATH=$INTEROP_BUILD/node_modules
    if is_fresh "$stamp" "$lock"; then return; fi
    rm -f "$stamp"
    cp "$1/package.json" "$lock" "$INTEROP_BUILD/" &&
        (cd "$INTEROP_BUILD" && npm ci --ignore-scripts --no-audit --no-fund) >&2 &&
        mark_fresh "$stamp" "$lock"
}

# install_pip DIRECTORY: a virtual environment in $INTEROP_BUILD with exactly what
# DIRECTORY/requirements.txt names.
install_pip() {
    local lock=$1/requirements.txt stamp=$INTEROP_BUILD/installed venv=$INTEROP_BUILD/venv
    if is_fresh "$stamp" "$lock"; then return; fi
    rm -rf "$stamp" "$venv"
    python3 -m venv "$venv" >&2 &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$lock" >&2 &&
        mark_fresh "$stamp" "$lock"
}

# install_maven DIRECTORY: the jars that DIRECTORY/pom.xml names, and theirs, into
# $INTEROP_BUILD/jars.
install_maven() {
    local lock=$1/pom.xml stamp=$INTEROP_BUILD/installed
    if is_fresh "$stamp" "$lock"; then return; fi
    rm -rf "$stamp" "$INTEROP_BUILD/jars"
    mvn -q -B -f "$lock" -Dmaven.repo.local="$INTEROP_BUILD/repository" \
        dependency:copy-dependencies -DoutputDirectory="$INTEROP_BUILD/jars" >&2 &&
        mark_fresh "$stamp" "$lock"
}
