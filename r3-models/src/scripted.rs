//! Somebody to ask who has the answers already: for tests of what is built on [`Ask`].

use std::collections::VecDeque;
use std::time::Duration;

use crate::account::Totals;
use crate::chat::{
    Answer, Ask, Failure, Finish, Finished, Question, Reply, Spent, State, Ticket, Usage,
};

/// Makes an answer of a question.
pub type Script = Box<dyn FnMut(&Question) -> Result<Answer, Failure> + Send>;

/// Answers by a function, at once and in order. Can be told to be down.
pub struct Scripted {
    script: Script,
    waiting: VecDeque<(Ticket, Question)>,
    next: u64,
    totals: Totals,
    state: State,
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Scripted {
    /// By a function.
    pub fn new(script: impl FnMut(&Question) -> Result<Answer, Failure> + Send + 'static) -> Self {
        Self {
            script: Box::new(script),
            waiting: VecDeque::new(),
            next: 0,
            totals: Totals::default(),
            state: State::Up,
            wake: None,
        }
    }

    /// By a function from the request's text to an answer's text.
    pub fn texts(mut answer: impl FnMut(&crate::chat::Request) -> String + Send + 'static) -> Self {
        Self::new(move |question| match question {
            Question::Chat(request) => {
                let bytes: usize = request.messages.iter().map(|m| m.content.len()).sum();
                let text = answer(request);
                Ok(Answer::Reply(Reply {
                    thoughts: String::new(),
                    finish: Finish::Stop,
                    usage: Usage {
                        prompt: bytes as u64 / 4,
                        cached: 0,
                        completion: text.len() as u64 / 4,
                        estimated: true,
                    },
                    served_by: None,
                    seconds: 0.0,
                    first_token: None,
                    retries: 0,
                    text,
                }))
            }
            Question::Embed(embed) => Ok(Answer::Vectors(
                embed.texts.iter().map(|t| vec![t.len() as f32]).collect(),
            )),
        })
    }

    /// Goes down, or comes back. While it is down nothing finishes.
    pub fn set_state(&mut self, state: State) {
        self.state = state;
        if let Some(wake) = &self.wake {
            wake();
        }
    }
}

impl Ask for Scripted {
    fn submit(&mut self, question: Question) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.push_back((ticket, question));
        if let Some(wake) = &self.wake {
            wake();
        }
        ticket
    }

    fn finished(&mut self, _wait: Duration) -> Vec<Finished> {
        if !self.state.is_up() {
            return Vec::new();
        }
        let mut all = Vec::new();
        while let Some((ticket, question)) = self.waiting.pop_front() {
            let outcome = (self.script)(&question);
            let usage = match &outcome {
                Ok(Answer::Reply(reply)) => reply.usage,
                _ => Usage::default(),
            };
            let spent = Spent {
                requests: 1,
                failed: u64::from(outcome.is_err()),
                usage,
                ..Spent::default()
            };
            let model = question.model().to_owned();
            self.totals.add(&model, &spent);
            all.push(Finished {
                ticket,
                model,
                spent,
                outcome,
            });
        }
        all
    }

    fn open(&self) -> usize {
        self.waiting.len()
    }

    fn under_way(&self) -> usize {
        0
    }

    fn state(&self) -> State {
        self.state.clone()
    }

    fn state_of(&self, _model: &str) -> State {
        self.state.clone()
    }

    fn totals(&self) -> Totals {
        self.totals.clone()
    }

    fn wake_by(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.wake = Some(wake);
    }
}
