"""A Jupyter kernel, driven as a notebook drives it: cells, output, an error, an interrupt, a restart."""

import re
import sys

from jupyter_client.manager import KernelManager

CELLS = (
    "import threading, time; print(sum(range(10)))",
    "thread = threading.Thread(target=lambda: print('from a thread')); thread.start(); thread.join()",
    "import subprocess; subprocess.run(['echo', 'a child'], capture_output=True).stdout",
    "await __import__('asyncio').sleep(0.01, 'awaited')",
    "1 / 0",
)


def cell(client, code):
    client.execute(code)
    said = []
    while True:
        message = client.get_iopub_msg(timeout=30)
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            said.append((content["name"], content["text"]))
        elif kind == "execute_result":
            said.append(("result", content["data"]["text/plain"]))
        elif kind == "error":
            said.append((content["ename"], content["evalue"]))
        elif kind == "status" and content["execution_state"] == "idle":
            return said


def main():
    manager = KernelManager(kernel_cmd=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    manager.start_kernel(stderr=sys.stderr)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=40)
    for code in CELLS:
        print(cell(client, code))
    client.execute("print('sleeps', flush=True); time.sleep(30)")
    while client.get_iopub_msg(timeout=30)["msg_type"] != "stream":  # an earlier interrupt would meet the kernel itself
        pass
    manager.interrupt_kernel()
    print(client.get_shell_msg(timeout=30)["content"]["status"])
    while re.match("status|execute", client.get_iopub_msg(timeout=30)["msg_type"]):
        pass
    client.stop_channels()
    manager.shutdown_kernel()
    print("alive" if manager.is_alive() else "over")


if __name__ == "__main__":
    main()
