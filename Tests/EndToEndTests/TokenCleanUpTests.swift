import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// The article on token clean-up: its table, its statements and its command, as they stand there, on a real
    /// PostgreSQL.
    @Suite struct TokenCleanUpTests {
        /// The statements in their order: the table, the registration, the file `delete-tokens.sql`.
        private let statements: [String]
        private let command: String

        init() throws {
            let place = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appending(path: "../../Sources/Worker/Worker.docc/TokenCleanUp.md").standardizedFileURL
            let article = try String(contentsOf: place, encoding: .utf8)
            func blocks(_ language: String) -> [String] {
                article.components(separatedBy: "```\(language)\n").dropFirst()
                    .map { $0.components(separatedBy: "```")[0] }
            }
            statements = blocks("sql")
            command = try #require(blocks("sh").first)
            try #require(statements.count == 3 && blocks("sh").count == 1)
        }

        /// 100,000 tokens are sent a notification; 5,000 are dead, 500 of which were registered again, and one more
        /// while the statement runs. tail is killed meanwhile. The others are deleted, and nothing when all is read
        /// again.
        @Test(
            .enabled(
                if: Tool.postgres.place != nil, "PostgreSQL is not installed (by hand: apt-get install postgresql)"),
            .needs(.worker, .broker, .python, .kcat))
        func `Dead tokens are deleted and no others`() throws {
            let database = try PostgreSQL()
            let scene = try Scene("clean-up")
            let worker = try scene.startWorker()
            try makeTokens(database)
            try sendToAll(database, scene, worker)
            try scene.await(scene.configuration.unregistered, holds: 5_000)

            try scene.write(statements[2], to: "delete-tokens.sql")
            // A statement that fails takes nothing.
            try database.run("alter table device_tokens rename to not_there_yet;")
            let early = try startTail(database, scene)
            try early.waitFor("the command exited with 3; its ")
            #expect(try early.stop() == .exited(1), "\(early.text)")
            try database.run("alter table not_there_yet rename to device_tokens;")

            // A registration that is not committed yet: the statement that meets it waits for it.
            let number = 1_234
            let session = try database.session(["--quiet", "-vtoken=\(Self.dead(number))", "-vaccount=\(number)"])
            session.write("begin;\n\(statements[1])\\echo registered\n")
            try session.waitFor("registered")
            let tail = try startTail(database, scene, more: "--batch", "100")
            try eventually("a statement that waits for the registration") {
                try database.run("select count(*) from pg_stat_activity where wait_event_type = 'Lock';") == "1"
            }
            // tail dies, and its psql lives on: it sees that the token is registered again now.
            try tail.killNow()
            session.write("commit;\n")
            let other = try startTail(database, scene)
            try KafkaBroker.shared?.awaitCommits([("token-cleaner", scene.configuration.unregistered)])
            #expect(try other.stop() == .exited(0), "\(other.text)")
            try expectTheRightOnes(database, number)

            // Another group reads everything again.
            let again = try startTail(database, scene, group: "token-cleaner-again", more: "--count", "5000")
            #expect(try again.wait() == .exited(0), "\(again.text)")
            try expectTheRightOnes(database, number)
            try scene.stop(worker)
        }

        // MARK: The tokens

        /// The simulator's dead tokens: the number is what follows 1,600,000,000,000 in its time of death, in
        /// milliseconds.
        private static func dead(_ number: Int) -> String { "fa174101" + hex(number, digits: 56) }

        private func makeTokens(_ database: PostgreSQL) throws {
            try database.run(statements[0])
            // Every tenth of the dead was registered after its death, or in the same millisecond; the others before,
            // some in the millisecond before.
            try database.run(
                """
                insert into device_tokens
                select lpad(to_hex(n), 8, '0') || repeat('5a', 28), n, now() - interval '1 year'
                from generate_series(1, 95000) n;
                insert into device_tokens (token, account, registered_at)
                select 'fa174101' || lpad(to_hex(n), 56, '0'), n, to_timestamp(0) + (1600000000000 + n)
                    * interval '1 ms' + case when n % 10 > 0 then interval '-1 ms'
                    when n = 10 then interval '0' else interval '1 ms' end
                from generate_series(0, 4999) n;
                delete from device_tokens where account = 20 and token like 'fa174101%';
                insert into device_tokens values ('fa174101' || lpad(to_hex(20), 56, '0'), 20, '2020-01-01');
                """)
            // By the registration of the article, in upper case.
            try database.run(
                statements[1], ["token": Self.dead(30).uppercased(), "account": "30"])
        }

        /// One record for 10,000 devices each, which the database makes.
        private func sendToAll(_ database: PostgreSQL, _ scene: Scene, _ worker: ChildProcess) throws {
            let envelopes = try database.run(
                """
                select json_build_object('device_tokens', json_agg(token), 'payload', '{"aps":{"alert":"News"}}'::json)::text
                from (select token, (row_number() over (order by md5(token)) - 1) / 10000 as part from device_tokens) numbered
                group by part;
                """)
            try scene.kcat(envelopes.split(separator: "\n").map(String.init), options: [])
            try scene.settle(worker)
        }

        /// - Parameter registered: the number of the one that was registered again while the statement ran.
        private func expectTheRightOnes(_ database: PostgreSQL, _ registered: Int) throws {
            let counts = try database.run(
                """
                select count(*), count(*) filter (where token like 'fa174101%'),
                    count(*) filter (where token like 'fa174101%'
                        and (account % 10 = 0 and account <> 20 or account = \(registered)))
                from device_tokens;
                """)
            #expect(counts == "95500|500|500")
        }

        // MARK: Programs

        /// The article's command, in the scene's folder, with that group's name in place of its own.
        private func startTail(
            _ database: PostgreSQL, _ scene: Scene, group: String = "token-cleaner", more: String...
        ) throws -> ChildProcess {
            let programs = URL(fileURLWithPath: try Tool.worker.path()).deletingLastPathComponent().path
            let path = ProcessInfo.processInfo.environment["PATH", default: ""]
            let line = command.trimmingCharacters(in: .newlines).replacing("token-cleaner", with: group)
            return try ChildProcess(
                "sh", ["-c", "cd '\(scene.folder.path)' && exec \(([line] + more).joined(separator: " "))"],
                environment: database.environment.merging(["PATH": "\(programs):\(path)"]) { $1 })
        }
    }
}
