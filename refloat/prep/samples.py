"""Texts on which the token table is compared with the tokenizer's own decoding. Data only."""

SAMPLES: tuple[str, ...] = (
    "The quick brown fox jumps over the lazy dog.",
    " Hello",
    "I don't think we'd say it isn't so; they're \"quoted\", he's 'quoted' , and she'll go .",
    " leading space,  two  spaces,   three\n\n\nlines\tand\ttabs \r\n trailing ",
    "def f(x: int) -> dict[str, int]:\n    return {'a': x ** 2, \"b\": ~x}  # comment\n",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "n": [1, 2.5e-3, null, true]}}',
    '<div class="a">&amp; &lt;b&gt;</div>\n```rust\nlet mut v: Vec<_> = vec![0u8; 4];\n```',
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ¿Dónde está el niño? Ça dépend, où?",
    "敏捷的棕色狐狸跳过懒狗。いろはにほへと ちりぬるを 키스의 고유조건은 입술끼리 만나야 하고",
    "यह एक परीक्षण वाक्य है। สวัสดีชาวโลก שלום עולם مرحبا بالعالم",
    "👨‍👩‍👧‍👦 🏳️‍🌈 🇨🇿🇯🇵 👍🏽 ☕️ 🚲 e\u0301 ﷽ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🀄",
    "0123456789 1,000,000.00 3.14159 -42 1e10 0xDEADBEEF 2024-11-29T15:30:00Z",
    "x\u00a0y\u2009z\u3000w \u200b\u200d\ufeff| … — – « » “ ” ‘ ’ ① ½ ™ €",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbb " + "ab" * 40,
    "\x00\x01\x1b[31mred\x1b[0m\x7f",
)
