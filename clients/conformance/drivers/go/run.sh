# Builds the driver with the package in GETID_PACKAGE, and runs it. An unchanged one is not built again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
package=$(cd "${GETID_PACKAGE:-$here/../../../go}" && pwd)
build=$package/build
mkdir -p "$build"
# One build at a time; the processes of a scene begin together.
if command -v flock >/dev/null; then
    exec 9>"$build/lock"
    flock 9
fi
sed "s|=> .*|=> $package|" "$here/go.mod" >"$build/driver.mod.$$"
mv "$build/driver.mod.$$" "$build/driver.mod"
cd "$here"
GOFLAGS=-mod=mod GOPROXY=off GOWORK=off go build -modfile "$build/driver.mod" -o "$build/driver" . >&2 </dev/null
exec 9>&-
exec "$build/driver"
