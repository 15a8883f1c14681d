//! Snippets of what conversations with agents hold, each of a kind of its own.

/// The snippets, by kind.
pub const WRITTEN: &[(&str, &str)] = &[
    ("code, Rust", RUST),
    ("code, Python", PYTHON),
    ("code, TypeScript", TYPESCRIPT),
    ("code, SQL and shell", SQL_AND_SHELL),
    ("diff", DIFF),
    ("prose, English", ENGLISH),
    ("prose, German", GERMAN),
    ("prose, Spanish", SPANISH),
    ("Markdown", MARKDOWN),
    ("JSON logs", JSON_LOGS),
    ("JSON, indented", JSON_INDENTED),
    ("log lines", LOG_LINES),
    ("stack trace", STACK_TRACE),
    ("table", TABLE),
    ("CJK, Chinese", CHINESE),
    ("CJK, Chinese traditional", CHINESE_TRADITIONAL),
    ("CJK, Japanese", JAPANESE),
    ("CJK, Korean", KOREAN),
    ("Cyrillic, Russian", RUSSIAN),
    ("Cyrillic, Ukrainian", UKRAINIAN),
    ("Greek", GREEK),
    ("Arabic", ARABIC),
    ("Hindi", HINDI),
    ("Thai", THAI),
    ("emoji", EMOJI),
    ("base64, certificate", BASE64),
    ("hex, checksums", HEX),
];

const RUST: &str = r#"impl<'a> Reader<'a> {
    /// Reads the next record, or none at the end of the file.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(line) = self.lines.next() else {
            return Ok(None);
        };
        self.line_number += 1;
        let mut fields = line.split('\t');
        let station = fields.next().ok_or(ReadError::MissingField { line: self.line_number, name: "station" })?;
        let level: f64 = fields.next().unwrap_or("0.0").parse()?;
        if !(-5.0..=15.0).contains(&level) {
            tracing::warn!(station, level, "level out of range");
        }
        Ok(Some(Record { station: station.to_owned(), level, taken_at: self.clock.now() }))
    }
}

#[test]
fn an_empty_file_has_no_record() {
    let mut reader = Reader::new("");
    assert!(matches!(reader.next_record(), Ok(None)));
}
"#;

const PYTHON: &str = r#"import argparse
import json
from collections import defaultdict
from pathlib import Path


def load_rows(path: Path, *, skip_header: bool = True) -> list[dict]:
    """Return the rows of a CSV file as dictionaries."""
    with path.open(encoding="utf-8") as handle:
        rows = [line.rstrip("\n").split(",") for line in handle]
    header, body = rows[0], rows[1:] if skip_header else rows
    return [dict(zip(header, row)) for row in body if len(row) == len(header)]


class Summary:
    def __init__(self, window=24):
        self.window = window
        self._values = defaultdict(list)

    def add(self, key, value):
        self._values[key].append(float(value))
        if len(self._values[key]) > self.window:
            self._values[key].pop(0)

    def mean(self, key):
        values = self._values.get(key, [])
        return sum(values) / len(values) if values else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    args = parser.parse_args()
    print(json.dumps(load_rows(args.path)[:3], indent=2))
"#;

const TYPESCRIPT: &str = r#"export interface GaugeProps {
  readonly stationId: string;
  onSelect?: (id: string, event: React.MouseEvent<HTMLButtonElement>) => void;
}

export function Gauge({ stationId, onSelect }: GaugeProps): JSX.Element {
  const [level, setLevel] = useState<number | null>(null);
  useEffect(() => {
    let cancelled = false;
    fetch(`/api/stations/${encodeURIComponent(stationId)}/level`)
      .then((response) => (response.ok ? response.json() : Promise.reject(new Error(response.statusText))))
      .then((body) => { if (!cancelled) setLevel(body.level); })
      .catch((error) => console.error("could not load the level", error));
    return () => { cancelled = true; };
  }, [stationId]);
  return (
    <button className="gauge" onClick={(event) => onSelect?.(stationId, event)}>
      {level === null ? <Spinner /> : `${level.toFixed(2)} m`}
    </button>
  );
}
"#;

const SQL_AND_SHELL: &str = r#"SELECT s.name, date_trunc('hour', r.taken_at) AS hour, avg(r.level) AS mean_level, count(*) AS readings
FROM readings r
JOIN stations s ON s.id = r.station_id
WHERE r.taken_at >= now() - interval '7 days' AND r.quality <> 'suspect'
GROUP BY s.name, hour
HAVING count(*) > 10
ORDER BY s.name, hour DESC;

$ for f in data/*.csv; do wc -l "$f"; done | sort -rn | head -5
$ grep -rn --include='*.rs' 'TODO' src/ | awk -F: '{print $1}' | uniq -c
$ curl -sS -H "Authorization: Bearer $TOKEN" https://gauges.example.org/v2/stations?limit=50 | jq '.items[] | {id, name}'
$ tar -xzf backup-2024-03-11.tar.gz -C /var/lib/gauges --strip-components=1 && systemctl restart gauges.service
"#;

const DIFF: &str = r#"diff --git a/src/reader.rs b/src/reader.rs
index 3f1c2ab..9d04e77 100644
--- a/src/reader.rs
+++ b/src/reader.rs
@@ -41,9 +41,12 @@ impl<'a> Reader<'a> {
         let mut fields = line.split('\t');
-        let station = fields.next().unwrap();
-        let level = fields.next().unwrap().parse().unwrap();
+        let station = fields.next().ok_or(ReadError::MissingField)?;
+        let level: f64 = fields.next().unwrap_or("0.0").parse()?;
+        if level.is_nan() {
+            return Err(ReadError::NotANumber);
+        }
         Ok(Some(Record { station, level }))
     }
 }
"#;

const ENGLISH: &str = "The harbour office has kept a record of the water level since 1871, and for most of that time somebody had \
to walk to the end of the pier with a lantern. Nobody complained much; the walk was short, the view was good, and the pay for \
night readings was twice the ordinary rate. What finally ended the practice was not progress but a storm: in the winter of 1962 the \
outer gauge was torn off its posts, and the money that had been set aside for repairs went into an electric float instead.\n\nI'd \
suggest we keep the old figures as they are. They're less precise than what we have now, but they weren't careless, and correcting \
them would mean guessing. If you'd rather have one continuous series, let's add a column that says how each value was obtained, so \
that whoever uses it can decide for themselves. Could you check whether the import still works when a day is missing?\n";

const GERMAN: &str = "Das Hafenamt führt seit 1871 Buch über den Wasserstand, und die meiste Zeit musste dafür jemand mit einer \
Laterne bis ans Ende der Mole gehen. Beschwert hat sich kaum jemand: Der Weg war kurz, die Aussicht gut, und für nächtliche Ablesungen \
gab es den doppelten Lohn. Beendet wurde der Brauch nicht durch den Fortschritt, sondern durch einen Sturm, der im Winter 1962 den \
äußeren Pegel von seinen Pfählen riss. Bitte überprüfe noch, ob die Einleseroutine auch dann funktioniert, wenn ein Messwert fehlt, \
und schreibe das Ergebnis in die Zusammenfassung.\n";

const SPANISH: &str = "La oficina del puerto registra el nivel del agua desde 1871, y durante la mayor parte de ese tiempo alguien \
tenía que caminar hasta el final del muelle con una linterna. Nadie se quejaba demasiado: el paseo era corto, la vista era buena y las \
lecturas nocturnas se pagaban el doble. Lo que acabó con la costumbre no fue el progreso, sino una tormenta que arrancó el medidor \
exterior en el invierno de 1962. ¿Podrías comprobar si la importación sigue funcionando cuando falta un día?\n";

const MARKDOWN: &str = "# Release notes\n\n## 2.4.0 (2024-03-11)\n\n### Added\n\n- **Importer**: reads `*.tsv` files with a \
header, see [the guide](docs/import.md#headers).\n- `--since DATE` limits a report to what is newer.\n\n### Fixed\n\n1. A missing day \
no longer stops the import (#318).\n2. `mean()` of nothing is `None` instead of a crash.\n\n> Note: the format of the cache has changed. \
Delete `~/.cache/gauges` once.\n\n```sh\ncargo install gauges --locked\ngauges report --since 2024-01-01\n```\n\n---\n\n";

const JSON_LOGS: &str = r#"{"ts":"2024-03-11T08:14:22.481Z","level":"info","target":"gauges::import","msg":"file read","path":"data/outer-07.csv","rows":1440,"elapsed_ms":12.7}
{"ts":"2024-03-11T08:14:22.502Z","level":"warn","target":"gauges::import","msg":"level out of range","station":"outer-07","value":-9.99,"line":312}
{"ts":"2024-03-11T08:14:23.010Z","level":"error","target":"gauges::http","msg":"request failed","status":503,"url":"https://gauges.example.org/v2/stations/17","retry":true,"trace_id":"7b0c1f9e4d2a4c63"}
{"ts":"2024-03-11T08:14:25.118Z","level":"info","target":"gauges::http","msg":"request done","status":200,"bytes":48211,"user":{"id":90412,"roles":["reader","editor"]}}
"#;

const JSON_INDENTED: &str = r#"{
  "stations": [
    {
      "id": 17,
      "name": "Outer pier",
      "position": { "lat": 54.1234, "lon": 10.5678 },
      "active": true,
      "tags": ["tide", "public"],
      "lastReading": null
    },
    {
      "id": 18,
      "name": "Fish market",
      "position": { "lat": 54.1301, "lon": 10.5544 },
      "active": false,
      "tags": [],
      "lastReading": { "takenAt": "2024-03-10T23:00:00Z", "levelMetres": 1.42 }
    }
  ],
  "nextPage": "/v2/stations?cursor=eyJpZCI6MTh9"
}
"#;

const LOG_LINES: &str = "2024-03-11 08:14:22,481 INFO  [main] o.e.gauges.Importer - Read 1440 rows from data/outer-07.csv in 12 \
ms\n2024-03-11 08:14:22,502 WARN  [worker-3] o.e.gauges.Importer - Level -9.99 of station outer-07 is out of range (line 312)\nMar 11 \
08:14:23 harbour sshd[20417]: Accepted publickey for admin from 10.0.3.17 port 52144 ssh2: ED25519\n10.0.3.17 - - \
[11/Mar/2024:08:14:25 +0000] \"GET /v2/stations/17/level?from=2024-03-01 HTTP/1.1\" 200 48211 \"-\" \"curl/8.5.0\"\n   Compiling serde \
v1.0.197\n    Finished `release` profile [optimized] target(s) in 42.18s\ntest reader::an_empty_file_has_no_record ... ok\n";

const STACK_TRACE: &str = "Traceback (most recent call last):\n  File \"/srv/gauges/app/main.py\", line 88, in <module>\n    \
main(sys.argv[1:])\n  File \"/srv/gauges/app/main.py\", line 61, in main\n    rows = load_rows(Path(args.path))\n  File \
\"/srv/gauges/app/reader.py\", line 12, in load_rows\n    with path.open(encoding=\"utf-8\") as handle:\nFileNotFoundError: [Errno 2] No \
such file or directory: 'data/outer-08.csv'\n\nthread 'main' panicked at src/reader.rs:43:57:\ncalled `Option::unwrap()` on a `None` \
value\nstack backtrace:\n   0: rust_begin_unwind\n   1: core::panicking::panic_fmt\n   2: core::option::unwrap_failed\n   3: \
gauges::reader::Reader::next_record\n             at ./src/reader.rs:43:57\n";

const TABLE: &str = "| station     | readings | mean level | highest | lowest |\n|-------------|---------:|-----------:|--------:|-------:|\n\
| Outer pier  |    10080 |      0.412 |   1.977 | -1.204 |\n| Fish market |     9934 |      0.398 |   1.951 | -1.188 |\n| North lock  |     \
8711 |      2.105 |   2.340 |  1.870 |\n\nPID   USER     %CPU %MEM      VSZ    RSS TTY   STAT START    TIME COMMAND\n1     root      0.0  0.1   \
168964  13120 ?     Ss   Mar10    0:04 /sbin/init\n20417 admin     1.3  2.7  1048576 442180 pts/0 Sl+  08:14    0:31 gauges serve\n";

const CHINESE: &str = "港务局从1871年开始记录水位，在大部分时间里，都需要有人提着灯走到码头的尽头去读数。很少有人抱怨：路不远，风景很好，\
而且夜间读数的报酬是平时的两倍。最后结束这种做法的并不是技术进步，而是一场风暴：1962年冬天，外侧的水位计被海浪卷走了，原本用于修理的钱就改买了\
电子浮标。\n\n我建议保留旧的数据，不要修改。它们虽然没有现在的精确，但是当时的人并不马虎，如果现在去修正，就只能靠猜。请检查一下，当某一天的数据\
缺失时，导入程序是否还能正常工作，并把结果写进总结里。\n";

const CHINESE_TRADITIONAL: &str = "港務局從1871年開始記錄水位，在大部分時間裡，都需要有人提著燈走到碼頭的盡頭去讀數。很少有人抱怨：路不遠，\
風景很好，而且夜間讀數的報酬是平時的兩倍。請檢查一下，當某一天的資料缺失時，匯入程式是否還能正常運作，並把結果寫進總結裡。\n";

const JAPANESE: &str = "港湾局は1871年から水位を記録しており、その間ほとんどの期間は、誰かがランタンを持って桟橋の先まで歩いて行かなければ\
なりませんでした。文句を言う人はあまりいませんでした。距離は短く、眺めは良く、夜の観測には通常の二倍の賃金が支払われたからです。\n\nデータが欠けている日\
があってもインポートが正しく動作するかどうかを確認して、結果をまとめに書いてください。エラーが発生した場合は、ログファイルを添付してお知らせください。\n";

const KOREAN: &str = "항만청은 1871년부터 수위를 기록해 왔으며, 그 기간의 대부분은 누군가가 등불을 들고 부두 끝까지 걸어가야 했습니다. 불평하는 \
사람은 별로 없었습니다. 길은 짧고 경치는 좋았으며 야간 측정에는 평소의 두 배에 해당하는 임금이 지급되었기 때문입니다. 하루치 데이터가 없을 때에도 가져오기가 \
제대로 작동하는지 확인하고 결과를 요약에 적어 주세요.\n";

const RUSSIAN: &str = "Портовое управление ведёт запись уровня воды с 1871 года, и почти всё это время кому-то приходилось идти с \
фонарём до самого конца причала. Никто особенно не жаловался: дорога была короткой, вид хорошим, а за ночные измерения платили вдвое \
больше. Конец этому обычаю положил не прогресс, а шторм: зимой 1962 года внешний измеритель сорвало с опор, и деньги, отложенные на \
ремонт, потратили на электрический поплавок.\n\nПроверь, пожалуйста, работает ли загрузка, если за какой-то день нет данных, и запиши \
результат в отчёт.\n";

const UKRAINIAN: &str = "Портове управління веде запис рівня води з 1871 року, і майже весь цей час комусь доводилося йти з ліхтарем \
до самого кінця причалу. Ніхто особливо не скаржився: дорога була короткою, краєвид гарним, а за нічні вимірювання платили вдвічі \
більше. Перевір, будь ласка, чи працює завантаження, якщо за якийсь день немає даних.\n";

const GREEK: &str = "Το λιμεναρχείο καταγράφει τη στάθμη του νερού από το 1871, και τον περισσότερο καιρό κάποιος έπρεπε να περπατά με \
ένα φανάρι μέχρι την άκρη της προβλήτας. Κανείς δεν παραπονιόταν πολύ: η διαδρομή ήταν μικρή και η θέα καλή. Μπορείς να ελέγξεις αν η \
εισαγωγή λειτουργεί όταν λείπει μια μέρα;\n";

const ARABIC: &str = "تسجل إدارة الميناء منسوب المياه منذ عام 1871، وفي معظم ذلك الوقت كان على أحدهم أن يمشي حاملاً فانوساً إلى نهاية \
الرصيف. لم يشتك أحد كثيراً، فالطريق قصير والمنظر جميل. هل يمكنك التحقق من أن الاستيراد يعمل عندما تكون بيانات يوم ما مفقودة؟\n";

const HINDI: &str = "बंदरगाह कार्यालय 1871 से जल स्तर का रिकॉर्ड रखता है, और अधिकतर समय किसी को लालटेन लेकर घाट के अंत तक चलना पड़ता था। \
किसी ने ज़्यादा शिकायत नहीं की, क्योंकि रास्ता छोटा था और नज़ारा अच्छा था। क्या आप देख सकते हैं कि किसी दिन का डेटा न होने पर भी आयात काम करता है?\n";

const THAI: &str = "สำนักงานท่าเรือบันทึกระดับน้ำมาตั้งแต่ปี 1871 และส่วนใหญ่ต้องมีคนถือโคมไฟเดินไปจนสุดท่าเรือ ไม่มีใครบ่นมากนัก \
เพราะทางสั้นและวิวดี ช่วยตรวจสอบหน่อยว่าการนำเข้ายังทำงานได้หรือไม่เมื่อข้อมูลของวันใดวันหนึ่งหายไป\n";

const EMOJI: &str = "Deploy is green ✅🚀 thanks everyone!! 🎉🎉🎉\n😀 lol that was close 😅 the build took ⏱️ 42 min 😱\n👍🏽 from me, \
👎 from the linter 🙈\n❤️ love it 💯🔥🔥\n⚠️ careful: 🐛 in the 🧪 suite → see 📎 notes 📝\n👩‍💻 pairing with 👨‍🔧 today ☕️ 🌧️ outside\n🇩🇪 🇯🇵 \
🇧🇷 offices are closed 🏖️\n🙏🙏 please review 👀\n";

const BASE64: &str = "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEbLdP8jANBgkqhkiG9w0BAQsFADBsMRAwDgYDVQQGEwdVbmtu\
b3duMRAw\nDgYDVQQIEwdVbmtub3duMRAwDgYDVQQHEwdVbmtub3duMRAwDgYDVQQKEwdVbmtub3duMRAwDgYD\nVQQLEwdVbmtub3duMRAwDgYDVQQDEwdVbmtub3du\
MB4XDTE0MDgyNjE1MTkyMloXDTQ0MDgxODE1\nMTkyMlowbDEQMA4GA1UEBhMHVW5rbm93bjEQMA4GA1UECBMHVW5rbm93bjEQMA4GA1UEBxMHVW5r\nh4Kq9ZtX2v7Qm1Lr\
Yp0EwJd8sUfGcT3oNbXaVxRzKi5MlDqPyHjBvCtWnOeFgAuS6I+kUJ2c\nZ8fTq0xWb3vY7mRpLhNc1dGsKjEoXuQiVaPzBt9HyCwS4rUeJgMn5lFkAqTdOiYxZv2cWb7R\n\
-----END CERTIFICATE-----\n";

const HEX: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  data/outer-07.csv\n60303ae22b998861bce3b28f33eec1be\
758a213c86c93c076dbe9f558c11c752  data/outer-08.csv\nfd61a03af4f77d870fc21e05e7e80678095c92d808cfb3b5c279ee04c74aca13  notes.md\n\
00000000: 7f45 4c46 0201 0100 0000 0000 0000 0000  .ELF............\n00000010: 0300 3e00 0100 0000 c0a1 0000 0000 0000  ..>.............\n\
request 550e8400-e29b-41d4-a716-446655440000 took commit 4d1f0c9b7e3a5d2268b7c0aa91fe33d05b6c7d8e\n";
