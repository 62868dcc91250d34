#!/usr/bin/env bash
# Fetch what Spark needs to read and write s3a:// itself: hadoop-aws of the Hadoop version that PySpark carries, and what
# that needs, by their coordinates with Maven, into .venv/hadoop-aws. Some 600 MB, once.
# Usage: scripts/hadoop_aws.sh
set -euo pipefail
cd "$(dirname "$0")/.."

jars=$(.venv/bin/python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
version=$(basename "$(ls "$jars"/hadoop-client-api-*.jar)" .jar)
version=${version#hadoop-client-api-}
folder=$PWD/.venv/hadoop-aws
if [ -f "$folder/hadoop-aws-$version.jar" ]; then
  printf 'hadoop-aws: %s is in .venv/hadoop-aws\n' "$version" >&2
  exit 0
fi
command -v mvn >/dev/null || { printf 'hadoop-aws: Maven (mvn) is needed to fetch it\n' >&2; exit 1; }
JAVA_HOME=$(scripts/java.sh)
export JAVA_HOME

draft=$(mktemp -d "$PWD/.venv/hadoop-aws.XXXXXX")
trap 'rm -rf "$draft"' EXIT
cat >"$draft/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidemark</groupId><artifactId>hadoop-aws-for-spark</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
POM
printf 'hadoop-aws: fetching %s and the AWS SDK with Maven (some 600 MB)\n' "$version" >&2
(cd "$draft" && mvn --batch-mode --quiet dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$draft/jars")
rm -rf "$folder"
mv "$draft/jars" "$folder"
printf 'hadoop-aws: %s is in .venv/hadoop-aws\n' "$version" >&2
