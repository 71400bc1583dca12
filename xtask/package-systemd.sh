# The steps of `./x package test` under systemd; a service in the new root runs this file.
#
# Each step ends the script if it fails. The result is the last line of the output.

fail() {
    echo "FAILED: $*"
    journalctl -u plumb-serve --no-pager -o cat | tail -n 20
    exit 1
}

config=/etc/plumb/serve.toml
dropin=/run/systemd/system/plumb-serve.service.d
mkdir -p "$dropin"
# In a namespace, systemd may be unable to make devices.
printf '[Service]\nType=oneshot\nExecStart=/bin/true\nPrivateDevices=yes\n' \
    >/run/systemd/system/probe.service
systemctl daemon-reload
if ! systemctl start probe.service; then
    echo 'PrivateDevices=yes is not tested: this namespace cannot make devices'
    printf '[Service]\nPrivateDevices=no\n' >"$dropin/devices.conf"
    systemctl daemon-reload
fi

echo '== start, with the hardening of the unit'
# The unit is of Type=notify: systemctl waits for READY=1.
systemctl start plumb-serve.service || fail 'the unit does not start'
echo 'a served file' >/var/lib/plumb/ftp/file
[ "$(curl -s ftp://127.0.0.1/file)" = 'a served file' ] || fail 'FTP'
[ "$(curl -sk --ssl-reqd ftp://127.0.0.1/file)" = 'a served file' ] || fail 'FTP in TLS'
[ -e /var/lib/plumb/transfers ] || fail 'no records in the state directory'

echo '== reload'
sed -i '0,/^#greeting = .*/s//greeting = "reloaded"/' "$config"
systemctl reload plumb-serve.service || fail 'the reload fails'
for _ in $(seq 50); do
    if journalctl -u plumb-serve --no-pager -o cat | grep -q '^configuration reloaded$'; then break; fi
    sleep 0.1
done
printf 'QUIT\r\n' | curl -s telnet://127.0.0.1:21 | grep -q reloaded || fail 'the reload changes nothing'
cp "$config" /run/saved.toml
echo 'nonsense = 1' >>"$config"
! systemctl reload plumb-serve.service 2>/dev/null || fail 'an invalid configuration is reloaded'
cp /run/saved.toml "$config"
[ "$(systemctl is-active plumb-serve.service)" = active ] || fail 'an invalid reload stops the server'

echo '== meters and log file'
plumb meters --list | grep -q serve || fail 'root does not find the meters of the service'
sed -i '0,/^#log-file = .*/s,,log-file = "/var/log/plumb/serve.log",' "$config"
systemctl reload plumb-serve.service || fail 'the reload fails'
wait_for_log() {
    for _ in $(seq 50); do
        if grep -qs "$1" /var/log/plumb/serve.log; then return; fi
        sleep 0.1
    done
    fail "no '$1' in the log file"
}
wait_for_log 'configuration reloaded'
mv /var/log/plumb/serve.log /var/log/plumb/serve.log.1
systemctl kill --kill-who=main --signal=USR1 plumb-serve.service
wait_for_log 'log files reopened'
cp /run/saved.toml "$config"
systemctl reload plumb-serve.service || fail 'the reload fails'

echo '== journal'
# The level and no time, because the journal has both.
journalctl -u plumb-serve -p notice --no-pager -o cat | grep -q '^serving FTP at 127.0.0.1:21' ||
    fail 'no line of the level notice'
! journalctl -u plumb-serve -p notice --no-pager -o cat | grep -q 'logged in as' ||
    fail 'a login has the level notice'

echo '== stop'
systemctl stop plumb-serve.service
[ "$(systemctl show -p Result --value plumb-serve.service)" = success ] || fail 'the stop fails'

echo '== an address that is assigned after the start'
sed -i 's/^listen = \["127.0.0.1:21".*/listen = ["10.88.0.77:21"]/' "$config"
! systemctl start plumb-serve.service 2>/dev/null || fail 'the address is assigned already'
# Longer than several starts without RestartSec= take.
sleep 3
[ "$(systemctl is-failed plumb-serve.service)" != failed ] || fail 'no further start is tried'
ip addr add 10.88.0.77/32 dev lo
wait_for_state() {
    for _ in $(seq 150); do
        if [ "$(systemctl is-active "$1")" = "$2" ]; then return; fi
        sleep 0.1
    done
    fail "$1 is not $2"
}
wait_for_state plumb-serve.service active
[ "$(curl -s ftp://10.88.0.77/file)" = 'a served file' ] || fail 'FTP at the late address'
systemctl stop plumb-serve.service
cp /run/saved.toml "$config"

echo '== logins of users of this machine'
main_pid() { systemctl show -p MainPID --value plumb-login.service; }
sed 's/^#log-file/log-file/; s/^\[login\]/&\nlisten = ["127.0.0.1:23"]/' \
    /usr/share/doc/plumbline/examples/login.toml >/etc/plumb/login.toml
systemctl start plumb-login.service || fail 'the login server does not start'
[ "$(stat -c %U /var/log/plumb /var/log/plumb/login.log | sort -u)" = plumb ] || fail 'owner of login.log'
[ -e /var/lib/plumb-login ] || fail 'no state directory of the login server'
pid=$(main_pid)
# A session: the system's login program waits for a name.
sleep 60 | curl -s telnet://127.0.0.1:23 >/run/session.txt &
for _ in $(seq 100); do
    if grep -qs "^PPid:[[:space:]]*$pid\$" /proc/[0-9]*/status; then break; fi
    sleep 0.1
done
grep -qs "^PPid:[[:space:]]*$pid\$" /proc/[0-9]*/status || fail "no session: $(cat /run/session.txt /var/log/plumb/login.log)"
dpkg -i --force-confold /next.deb >/run/upgrade.txt 2>&1 || fail "upgrade: $(cat /run/upgrade.txt)"
grep -q "'systemctl restart plumb-login' ends the sessions" /run/upgrade.txt ||
    fail "the upgrade says nothing about the sessions: $(cat /run/upgrade.txt)"
[ "$(main_pid)" = "$pid" ] || fail 'the upgrade ends the sessions'
systemctl restart plumb-login.service
pid=$(main_pid)
dpkg -i --force-confold --force-downgrade /package.deb >/run/upgrade.txt 2>&1 ||
    fail "upgrade: $(cat /run/upgrade.txt)"
[ "$(main_pid)" != "$pid" ] || fail 'the upgrade does not restart a server without sessions'
[ "$(systemctl is-active plumb-login.service)" = active ] || fail 'the upgrade stops the login server'

echo '== socket activation, without capabilities'
printf '[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n' >"$dropin/capabilities.conf"
systemctl daemon-reload
systemctl start plumb-serve.socket || fail 'the socket unit does not start'
[ "$(systemctl is-active plumb-serve.service)" = inactive ] || fail 'the service runs already'
[ "$(curl -s ftp://127.0.0.1/file)" = 'a served file' ] || fail 'FTP by socket activation'
pid=$(systemctl show -p MainPID --value plumb-serve.service)
grep -q '^CapEff:[[:space:]]*0*$' "/proc/$pid/status" || fail 'the server has capabilities'
systemctl stop plumb-serve.socket plumb-serve.service

echo '== remove'
dpkg -r plumbline >/dev/null 2>&1 || fail 'remove'
wait_for_state plumb-login.service inactive
[ -z "$(ss -Hltn 'sport = :992')" ] || fail 'port 992 remains open'
echo PASSED
