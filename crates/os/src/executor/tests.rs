//! Tests of the executor: events, timers, messages of other threads, and the end of tasks.

use super::{Descriptor, EventLoop, Executor, WaitObserver};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

impl WaitObserver for EventLoop {}

/// Runs `test` on tokio, with an executor whose tasks share an [`EventLoop`].
fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<Executor<EventLoop>>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let executor =
            Executor::start("tasks", Handle::current(), |event_loop| event_loop).unwrap();
        test(Rc::new(executor)).await;
    });
}

fn register(event_loop: &EventLoop, stream: UnixStream) -> Descriptor<OwnedFd> {
    stream.set_nonblocking(true).unwrap();
    event_loop.register(OwnedFd::from(stream), Interest::READABLE).unwrap()
}

async fn byte(stream: &Descriptor<OwnedFd>) -> u8 {
    loop {
        stream.ready(Interest::READABLE).await.unwrap();
        let mut byte = [0];
        let read = |stream: &OwnedFd| Ok(rustix::io::read(stream, &mut byte)?);
        match stream.try_io(Interest::READABLE, read) {
            Ok(_) => return byte[0],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn a_task_is_polled_when_its_descriptor_has_an_event() {
    run(|executor| async move {
        let (local, remote) = UnixStream::pair().unwrap();
        let (begun, has_begun) = oneshot::channel();
        let task = executor.run(|event_loop| async move {
            let stream = register(&event_loop, local);
            begun.send(()).unwrap();
            [byte(&stream).await, byte(&stream).await]
        });
        let remote = async {
            has_begun.await.unwrap();
            rustix::io::write(&remote, b"ab").unwrap();
        };
        assert_eq!(tokio::join!(task, remote).0, Some(*b"ab"));
    });
}

#[test]
fn a_timer_expires_at_its_changed_deadline() {
    run(|executor| async move {
        let task = executor.run(|event_loop| async move {
            let started_at = Instant::now();
            let mut timer = event_loop.timer(started_at + Duration::from_secs(3600));
            timer.set_deadline(None);
            timer.set_deadline(Some(started_at + Duration::from_millis(5)));
            timer.wait_for_expiry().await;
            started_at.elapsed()
        });
        assert!(task.await.unwrap() >= Duration::from_millis(5));
    });
}

#[test]
fn a_task_is_woken_from_another_thread() {
    run(|executor| async move {
        let (sender, receiver) = oneshot::channel();
        let task = executor.run(|_| receiver);
        sender.send(7).unwrap();
        assert_eq!(task.await, Some(Ok(7)));
    });
}

#[test]
fn a_task_that_is_always_ready_does_not_starve_the_others() {
    run(|executor| async move {
        let (local, remote) = UnixStream::pair().unwrap();
        rustix::io::write(&remote, b"x").unwrap();
        let busy = executor.run(|event_loop| async move {
            let stream = register(&event_loop, local);
            loop {
                // Nothing reads the byte, so the stream stays ready.
                stream.ready(Interest::READABLE).await.unwrap();
            }
        });
        let other = executor.run(|_| async { 1 });
        tokio::select! {
            () = async { _ = busy.await; } => panic!("the busy task has ended"),
            result = other => assert_eq!(result, Some(1)),
        }
    });
}

#[test]
fn a_panic_in_one_task_does_not_affect_the_others() {
    run(|executor| async move {
        let result = executor.run(|_| async { assert!(std::thread::panicking(), "on purpose") });
        assert_eq!(result.await, None);
        assert_eq!(executor.run(|_| async { 1 }).await, Some(1));
    });
}

#[test]
fn the_end_of_the_executor_ends_its_tasks() {
    run(|executor| async move {
        let (held, is_dropped) = oneshot::channel::<()>();
        let task = executor.run(|_| async move {
            let _held = held;
            poll_fn(|_| Poll::<()>::Pending).await;
        });
        let mut task = Box::pin(task);
        assert!(is_pending(task.as_mut()).await);
        drop(task);
        drop(executor);
        assert!(is_dropped.await.is_err());
    });
}

async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}
