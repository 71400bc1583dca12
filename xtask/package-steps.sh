# The steps of `./x package test` inside of the new root; package-test.sh runs this file there.
#
# Each step ends the script if it fails.

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

step() { echo "== $*"; }

config=/etc/plumb/serve.toml

# Runs the command of the unit as the user of the unit, and waits until it serves.
start_server() {
    setpriv --reuid plumb --regid plumb --clear-groups --inh-caps +net_bind_service \
        --ambient-caps +net_bind_service env STATE_DIRECTORY=/var/lib/plumb \
        plumb serve --config "$config" 2>/run/serve.log &
    server=$!
    for _ in $(seq 100); do
        if grep -q 'serving FTP at' /run/serve.log; then return 0; fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat /run/serve.log >&2
    fail 'the server does not start'
}

stop_server() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with $?"
}

step 'install'
dpkg -i /package.deb
[ "$(dpkg-query -W -f '${db:Status-Status}' plumbline)" = installed ] || fail 'not installed'
# Every installed file has the checksum of the package.
[ -z "$(dpkg --verify plumbline)" ] || fail "$(dpkg --verify plumbline)"
getent passwd plumb | grep -q ':/var/lib/plumb:/usr/sbin/nologin$' || fail 'no user plumb'
[ "$(stat -c '%U %a' /var/lib/plumb)" = 'plumb 750' ] || fail 'state directory'
[ -d /var/log/plumb ] && [ -d /etc/plumb/console ] || fail 'directories'

step 'documentation'
# Each relative link of a page leads to an installed file.
find /usr/share/doc/plumbline -name '*.md' | while read -r page; do
    grep -o ']([^)#:|]*[)#]' "$page" | sed 's/^](//; s/[)#]$//' | while read -r link; do
        [ -z "$link" ] || [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done >/run/dead-links
[ ! -s /run/dead-links ] || fail "dead links: $(cat /run/dead-links)"
man plumb-serve 2>/dev/null | grep -q 'run-as-a-service.md' || fail 'no walk-through in plumb-serve(1)'

step 'use'
plumb --version
man -w plumb plumb-serve plumb-login 5 plumb-serve.toml >/dev/null || fail 'man pages'
man 5 plumb-serve.toml 2>&1 | grep -q 'login-timeout-s' || fail 'plumb-serve.toml(5)'
bash -c '. /usr/share/bash-completion/bash_completion
    _completion_loader plumb; complete -p plumb' | grep -q _plumb || fail 'completion'
for unit in plumb-serve.service plumb-serve.socket plumb-login.service plumb-console@ttyS0.service; do
    systemd-analyze verify "/usr/lib/systemd/system/$(echo "$unit" | sed s/@.*service/@.service/)" ||
        fail "$unit"
done
for unit in plumb-serve.service plumb-login.service; do
    [ "$(systemctl is-enabled "$unit")" = disabled ] || fail "$unit is enabled by the installation"
done
plumb serve --check --config /usr/share/doc/plumbline/examples/login.toml || fail 'login.toml'
plumb serve --check-as plumb --config "$config"
# The service cannot read this user file, although root can.
sed 's,^#users = "/etc/plumb/ftp.toml".*,users = "/etc/plumb/ftp.toml",' "$config" >/run/users.toml
install -m 0600 /dev/null /etc/plumb/ftp.toml
plumb serve --check --config /run/users.toml || fail 'check as root'
! plumb serve --check-as plumb --config /run/users.toml 2>/run/check.txt || fail 'check as plumb'
grep -q 'cannot read user file /etc/plumb/ftp.toml' /run/check.txt || fail "$(cat /run/check.txt)"
echo 'a served file' >/var/lib/plumb/ftp/file
start_server
[ "$(curl -s ftp://127.0.0.1/file)" = 'a served file' ] || fail 'FTP with curl'
[ "$(curl -sk --ssl-reqd ftp://127.0.0.1/file)" = 'a served file' ] || fail 'FTP in TLS'
[ "$(plumb get ftp://127.0.0.1/file -)" = 'a served file' ] || fail 'FTP with plumb'
# The records of root are not those of the service.
[ -d ~/.local/state/plumb/transfers ] || fail 'no records of root'
others=$(find /var/lib/plumb -path /var/lib/plumb/ftp -prune -o ! -user plumb -print)
[ -z "$others" ] || fail "root writes to the state of the service: $others"
# The server collects records for a moment.
for _ in $(seq 50); do
    if plumb stats list --directory /var/lib/plumb/transfers | grep -q '/file'; then break; fi
    sleep 0.1
done
plumb stats list --directory /var/lib/plumb/transfers | grep -q '/file' || fail 'no records of the service'
plumb serve --check --config "$config" || fail 'check while the server runs'
stop_server
ls -l /var/lib/plumb

step 'upgrade over itself'
systemctl enable plumb-serve.service plumb-login.service
sed -i '0,/^#greeting = .*/s//greeting = "changed by the operator"/' "$config"
dpkg -i --force-confdef --force-confold /next.deb
grep -q '^greeting = "changed by the operator"' "$config" || fail 'the changed conffile was replaced'
grep -q 'A line of the new version' "$config.dpkg-dist" || fail 'no new version of the conffile'
for unit in plumb-serve.service plumb-login.service; do
    [ "$(systemctl is-enabled "$unit")" = enabled ] || fail "the upgrade disables $unit"
done
dpkg -i --force-confold --force-downgrade /package.deb
start_server
printf 'QUIT\r\n' | curl -s telnet://127.0.0.1:21 | grep -q 'changed by the operator' ||
    fail 'the configuration of the operator is not used'
stop_server

step 'remove'
dpkg -r plumbline
[ ! -e /usr/bin/plumb ] || fail "the program remains"
grep -q '^greeting = "changed by the operator"' "$config" || fail 'removal deletes the conffile'
[ -e /var/lib/plumb/ftp/file ] || fail 'removal deletes served files'

step 'purge'
for file in users.toml login.toml login-users.toml; do echo secret >"/etc/plumb/$file"; done
mkdir -p /var/lib/plumb-login
echo foreign >/etc/plumb/other.conf
dpkg -P plumbline
[ "$(ls /etc/plumb)" = other.conf ] || fail "in /etc/plumb: $(ls /etc/plumb)"
rm -r /etc/plumb
[ ! -e "$config" ] || fail 'the conffile remains'
[ ! -e /var/log/plumb ] && [ ! -e /var/lib/plumb-login ] || fail 'directories remain'
[ -z "$(ls /var/lib/plumb/*.pem /var/lib/plumb/transfers 2>/dev/null)" ] || fail 'state remains'
[ "$(cat /var/lib/plumb/ftp/file)" = 'a served file' ] || fail 'purging deletes served files'
! dpkg-query -W plumbline 2>/dev/null || fail 'dpkg knows the package'
links=$(find /etc -name '*plumb-serve*' -o -name '*plumb-login*')
[ -z "$links" ] || fail "links remain: $links"

step 'install again after the purge, and purge without served files'
dpkg -i /package.deb >/dev/null
rm /var/lib/plumb/ftp/file
dpkg -P plumbline >/dev/null
[ ! -e /var/lib/plumb ] && [ ! -e /etc/plumb ] || fail 'directories remain'
