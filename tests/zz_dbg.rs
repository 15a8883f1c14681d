#[path = "extractive/corpus.rs"] mod corpus;
use arya_presets::*;
#[test] fn dbg() {
  for seed in [3u64, 1003] {
  let c = corpus::conversation(seed);
  fn of(b:&[Block])->usize{b.iter().map(|b|match b{Block::Text(t)=>t.text.chars().count(),Block::ToolCall(c)=>c.name.len()+c.arguments.len(),Block::ToolResult(r)=>of(&r.content),_=>0}).sum()}
  let n: usize = c.messages.iter().map(|m| of(&m.content)).sum();
  println!("{n}");
  for m in &c.messages { if m.source.is_user() { println!("U {}", m.text()); } }
  println!("{}", ExtractiveSummarizer::new().summarize_within(&c.messages, &Kit::base(), n/10).unwrap());
  }
}
