#!/usr/bin/env bash
# Print the home of a Java that Spark can run on (17 or newer) on standard output, and nothing else when all is
# well. When there is none: as root on Debian and its kin install one, else say which command does, and exit 1.
set -euo pipefail

minimum=17

say() { printf 'java: %s\n' "$*" >&2; }

# The home of the given java program if it runs and is new enough, else nothing. (On macOS /usr/bin/java is
# there without any Java behind it, so only running it tells.)
home_of() {
  local properties version home
  properties=$("$1" -XshowSettings:properties -version 2>&1 </dev/null) || return 1
  version=$(sed -n 's/^ *java\.specification\.version = //p' <<<"$properties")
  home=$(sed -n 's/^ *java\.home = //p' <<<"$properties")
  # Java 8 calls itself 1.8; its major number is then 1, which is too old in any case.
  [ -n "$home" ] && [ "${version%%.*}" -ge "$minimum" ] 2>/dev/null && printf '%s\n' "$home"
}

find_home() {
  local candidate
  if [ -n "${JAVA_HOME:-}" ] && home_of "$JAVA_HOME/bin/java"; then return 0; fi
  if command -v java >/dev/null 2>&1 && home_of java; then return 0; fi
  if [ -x /usr/libexec/java_home ] && candidate=$(/usr/libexec/java_home -v "$minimum+" 2>/dev/null) &&
    home_of "$candidate/bin/java"; then return 0; fi
  # The versions that Spark is tested with come first.
  for candidate in \
    /usr/lib/jvm/*-17-* /usr/lib/jvm/*-17 /usr/lib/jvm/*-21-* /usr/lib/jvm/*-21 /usr/lib/jvm/* \
    /opt/homebrew/opt/openjdk@17 /opt/homebrew/opt/openjdk@21 /opt/homebrew/opt/openjdk \
    /usr/local/opt/openjdk@17 /usr/local/opt/openjdk@21 /usr/local/opt/openjdk \
    /Library/Java/JavaVirtualMachines/*/Contents/Home "${HOME:-/}"/.sdkman/candidates/java/current; do
    if [ -x "$candidate/bin/java" ] && home_of "$candidate/bin/java"; then return 0; fi
  done
  return 1
}

# The package to install: 17 where the distribution has it, else the next that Spark supports.
debian_package() {
  local package
  for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      echo "$package"
      return 0
    fi
  done
  echo default-jre-headless
}

install_on_debian() {
  local package
  say "no Java $minimum or newer found; installing one with apt-get (a minute or two)"
  export DEBIAN_FRONTEND=noninteractive
  # A stale list of one repository need not matter; the installation tells.
  apt-get update -qq </dev/null >&2 || say "apt-get update failed; trying with the package lists at hand"
  package=$(debian_package)
  say "installing $package"
  # Slim images lack this folder, and some versions of the package fail without it.
  mkdir -p /usr/share/man/man1
  apt-get install -y -qq --no-install-recommends "$package" </dev/null >&2
}

command_to_install() {
  if [ "$(uname -s)" = Darwin ]; then
    echo "brew install openjdk@17"
  elif command -v apt-get >/dev/null 2>&1; then
    echo "sudo apt-get install $(debian_package)"
  elif command -v dnf >/dev/null 2>&1; then
    echo "sudo dnf install java-latest-openjdk-headless"
  elif command -v pacman >/dev/null 2>&1; then
    echo "sudo pacman -S jre17-openjdk-headless"
  elif command -v apk >/dev/null 2>&1; then
    echo "sudo apk add openjdk17-jre-headless"
  elif command -v zypper >/dev/null 2>&1; then
    echo "sudo zypper install java-17-openjdk-headless"
  fi
}

explain() {
  local command
  command=$(command_to_install)
  say "Spark needs Java $minimum or newer, and none was found (looked at JAVA_HOME, PATH and the usual folders)."
  if [ -n "$command" ]; then
    say "Install it with:  $command"
  else
    say "Install a Java runtime $minimum or newer and set JAVA_HOME to its folder."
  fi
}

if find_home; then exit 0; fi
if [ "$(id -u)" = 0 ] && [ -e /etc/debian_version ] && command -v apt-get >/dev/null 2>&1; then
  if install_on_debian && find_home; then exit 0; fi
  say "the installation did not succeed"
fi
explain
exit 1
