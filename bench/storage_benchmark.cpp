// Compares writing and reading a checkpoint with a plain write (with fsync) and a plain read of the
// same bytes in the same folder. In memory, processor time shows the cost of our code. With TMPDIR
// on a disk, wall time shows how long a user waits.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <benchmark/benchmark.h>

#include <truestep/distributed/in_process.hpp>
#include <truestep/optimizer.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/error.hpp>

#include "measure.hpp"
#include "scratch.hpp"

namespace {

namespace fs = std::filesystem;
using namespace truestep;
using namespace truestep::bench;
using problem::Index;

/// A file of plain bytes.
class PlainFile {
  public:
    PlainFile(fs::path path, std::size_t bytes) : path_(std::move(path)), bytes_(bytes, 1) {}

    void write() const {
        const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        std::size_t done = 0;
        while (done < bytes_.size()) {
            const auto count = ::write(file, bytes_.data() + done, bytes_.size() - done);
            if (count <= 0)
                throw Error(path_.string() + ": cannot be written; check the space on the disk");
            done += static_cast<std::size_t>(count);
        }
        if (fsync(file) != 0)
            throw Error(path_.string() + ": cannot be made to last; check the disk");
        close(file);
    }
    void read() {
        const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
        std::size_t done = 0;
        while (done < bytes_.size()) {
            const auto count = ::read(file, bytes_.data() + done, bytes_.size() - done);
            if (count <= 0)
                throw Error(path_.string() + ": cannot be read; it was there a moment ago");
            done += static_cast<std::size_t>(count);
        }
        close(file);
    }

  private:
    fs::path path_;
    std::vector<char> bytes_;
};

std::size_t size_of(const fs::path& folder) {
    std::size_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder))
        bytes += entry.file_size();
    return bytes;
}

template <bool reads>
void checkpoint_row(benchmark::State& state) {
    const Index size = state.range(0);
    const Scratch folder;
    InProcessGroup group(1);
    const auto communicator = group.communicator(0);
    Settings settings;
    settings.density = DensitySchedule::constant(1.0 / static_cast<double>(state.range(1)));
    const std::vector<float> start(static_cast<std::size_t>(size), 1.0F);
    auto optimizer = make_optimizer(Layout({{"all", size, false}}), settings, *communicator, start);
    std::vector<float> gradient;
    for (Index index = 0; index < size; ++index)
        gradient.push_back(problem::gradient_value(problem::DataClass::normal, 1, 0, 1, index));
    optimizer->step(gradient, 1e-3);

    const fs::path checkpoint = save_checkpoint(*optimizer, *communicator, folder.path());
    const std::size_t bytes = size_of(checkpoint);
    PlainFile plain(folder.path() / "plain", bytes);
    plain.write();
    const auto row = [&](const auto& floor, const auto& action) {
        take_turns(state, static_cast<double>(bytes), floor, action,
                   Scratch::is_chosen() ? wall_seconds : thread_seconds);
    };
    if constexpr (reads)
        row([&] { plain.read(); }, [&] { restore_checkpoint(*optimizer, *communicator, checkpoint); });
    else
        row([&] { plain.write(); }, [&] { save_checkpoint(*optimizer, *communicator, folder.path()); });
    state.counters["file_B/param"] = static_cast<double>(bytes) / static_cast<double>(size);
}

template <int iterations>
void arguments(benchmark::internal::Benchmark* row) {
    row->ArgNames({"d", "1/density"})->UseManualTime()->Unit(benchmark::kMillisecond);
    for (const std::int64_t size : {1 << 20, 1 << 24})
        row->Args({size, 100})->Iterations(iterations);
}

BENCHMARK(checkpoint_row<false>)->Name("checkpoint_write")->Apply(arguments<15>);
BENCHMARK(checkpoint_row<true>)->Name("checkpoint_read")->Apply(arguments<15>);

} // namespace
