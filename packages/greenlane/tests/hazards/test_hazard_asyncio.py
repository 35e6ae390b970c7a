"""Event loops inside jobs: `asyncio.run` in a view, executors, and calls from one job's loop to another's."""

import asyncio
import threading

from tests.hazards.scenario import Threads, burn, job


def test_asyncio_run_inside_jobs(run_jobs):
    async def work(number: int) -> int:
        burn(0.5)
        await asyncio.sleep(0.001)
        burn(0.5)
        return number

    async def main() -> list[int]:
        return await asyncio.gather(*[work(number) for number in range(4)])

    assert run_jobs([lambda: asyncio.run(main())] * 6) == [[0, 1, 2, 3]] * 6


def test_to_thread_whose_function_is_a_heavy_job(running, run_jobs):
    def inner(number: int) -> int:
        with job(running):
            burn(1)
            return number

    async def main() -> list[int]:
        burn(1)
        return await asyncio.gather(*[asyncio.to_thread(inner, number) for number in range(3)])

    assert run_jobs([lambda: asyncio.run(main())] * 4) == [[0, 1, 2]] * 4


def test_a_stream_served_and_read_inside_one_job(run_jobs):
    async def main() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            burn(1)
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
        return line

    assert run_jobs([lambda: asyncio.run(main())] * 4) == [b"HELLO\n"] * 4


def test_a_job_waits_for_a_coroutine_on_a_loop_of_another_thread(running):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def double(number: int) -> int:
        await asyncio.sleep(0.001)
        return number * 2

    def one(number: int):
        def run() -> int:
            with job(running):
                burn(2)
                return asyncio.run_coroutine_threadsafe(double(number), loop).result(15)

        return run

    threads = Threads()
    for number in range(6):
        threads.start(one(number))
    assert threads.join() == [0, 2, 4, 6, 8, 10]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def test_a_loop_that_is_itself_inside_a_job_takes_work_from_heavy_jobs(running):
    ready = threading.Event()
    box: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    count: list[int] = []

    async def main() -> int:
        done = asyncio.Event()
        box.append((asyncio.get_running_loop(), done))
        ready.set()
        async with asyncio.timeout(15):
            await done.wait()
        return len(count)

    def serve() -> int:
        with job(running):
            return asyncio.run(main())

    def arrive() -> None:
        count.append(1)
        if len(count) == 4:
            box[0][1].set()

    def send() -> int:
        ready.wait(10)
        with job(running):
            burn(2)
            box[0][0].call_soon_threadsafe(arrive)
            return 0

    threads = Threads()
    threads.start(serve)
    for _ in range(4):
        threads.start(send)
    assert threads.join() == [4, 0, 0, 0, 0]
