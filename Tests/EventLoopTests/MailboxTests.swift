@testable import EventLoop
import Foundation
import Synchronization
import Testing

@Suite struct MailboxTests {
    @Test(arguments: [1, 4, 8])
    func `Messages from many threads arrive once and in each thread's order`(threads: Int) throws {
        let perThread = 20_000
        let seen = Mutex(Seen(last: Array(repeating: -1, count: threads)))
        let done = DispatchSemaphore(value: 0)
        let receiver = try LoopThread(name: "receiver")
        let mailbox = Mailbox<Message>(loop: receiver.loop) { batch in
            let isAll = seen.withLock { seen in
                for message in batch {
                    if message.number != seen.last[message.thread] + 1 { seen.disorder += 1 }
                    seen.last[message.thread] = message.number
                    seen.count += 1
                }
                return seen.count == threads * perThread
            }
            if isAll { done.signal() }
        }
        for thread in 0..<threads {
            Thread.detachNewThread {
                var number = 0
                while number < perThread {
                    if number % 3 == 0 {
                        mailbox.post(Message(thread: thread, number: number))
                        number += 1
                    } else {
                        let batch = (number..<min(number + 5, perThread)).map { Message(thread: thread, number: $0) }
                        mailbox.post(contentsOf: batch)
                        number += batch.count
                    }
                }
            }
        }
        #expect(done.wait(timeout: .now() + 180) == .success)
        receiver.stop()
        receiver.join()
        seen.withLock {
            #expect($0.count == threads * perThread)
            #expect($0.disorder == 0)
        }
    }

    @Test func `A message that a handler posts to its own mailbox arrives in the next turn`() throws {
        let loop = try Loop()
        var seen: [Int] = []
        var mailbox: Mailbox<Int>?
        mailbox = Mailbox<Int>(loop: loop) { batch in
            seen += batch
            if seen.count < 3 { mailbox?.post(seen.count) }
        }
        mailbox?.post(0)
        loop.runOnce()
        #expect(seen == [0])
        loop.runOnce(timeoutNs: 10_000_000_000)
        loop.runOnce(timeoutNs: 10_000_000_000)
        #expect(seen == [0, 1, 2])
        mailbox = nil
    }

    @Test func `A mailbox without room for every message of a post rejects the whole post`() throws {
        let loop = try Loop()
        var seen: [Int] = []
        let mailbox = Mailbox<Int>(loop: loop, capacity: 3) { seen += $0 }
        #expect(mailbox.post(1))
        #expect(!mailbox.post(contentsOf: [2, 3, 4]))
        #expect(mailbox.post(contentsOf: [2, 3]))
        #expect(!mailbox.post(4))
        loop.runOnce()
        #expect(seen == [1, 2, 3])
        #expect(mailbox.post(4))
    }

    @Test func `A sleeping loop wakes for the first post of every sleep`() throws {
        let received = Mutex(0)
        let turn = DispatchSemaphore(value: 0)
        let receiver = try LoopThread(name: "receiver")
        let mailbox = Mailbox<Int>(loop: receiver.loop) { batch in
            received.withLock { $0 += batch.count }
            turn.signal()
        }
        for round in 1...5_000 {
            mailbox.post(round)
            guard turn.wait(timeout: .now() + 180) == .success else {
                Issue.record("round \(round) was not delivered")
                break
            }
        }
        #expect(received.withLock { $0 } == 5_000)
        receiver.stop()
        receiver.join()
    }

    private struct Message: Sendable {
        var thread: Int
        var number: Int
    }

    private struct Seen {
        var last: [Int]
        var count = 0
        var disorder = 0
    }
}
