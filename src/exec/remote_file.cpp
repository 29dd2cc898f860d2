#include "exec/remote_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/logging.h"

namespace popxl::exec {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kCommitsAt = kPage;             // two, of a page each
constexpr int64_t kDescriptionAt = 3 * kPage;     // then the records of the entries, then their slots
constexpr uint64_t kMagic = 0x314D4552'58504F50;  // "POPXREM1"

struct Head {
  uint64_t magic = kMagic;
  uint64_t descriptionBytes = 0, descriptionSum = 0;
};

int64_t roundedUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

uint64_t sumOf(const std::string& text) {
  return checksum(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

/// The first line of `mine` that is not in `theirs` at its place, and what is there.
std::pair<std::string, std::string> firstDifference(const std::string& mine, const std::string& theirs) {
  size_t at = 0;
  while (at < mine.size() && at < theirs.size() && mine[at] == theirs[at]) ++at;
  const auto line = [&](const std::string& text) {
    const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    if (begin >= text.size()) return std::string("nothing more");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  return {line(mine), line(theirs)};
}

}  // namespace

RemoteFile::RemoteFile(const RemoteLayout& layout, int64_t firstReplica, const std::string& folder)
    : layout_(layout) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    fail(ErrorKind::kRuntime, "can't make the folder {} for remote buffers: {}", folder, error.message());
  }
  const std::string description = describe(firstReplica);
  layOut(kDescriptionAt + static_cast<int64_t>(description.size()));
  const std::string path = std::filesystem::path(folder) / fmt::format("replica-{}.remote", firstReplica);
  if (std::filesystem::exists(path, error)) {
    open(path, description);
  } else {
    make(path, description);
  }
}

std::string RemoteFile::describe(int64_t firstReplica) const {
  std::string text = fmt::format("replicas {} to {}\n", firstReplica, firstReplica + layout_.lanes - 1);
  for (const RemoteLayout::Buffer& b : layout_.buffers)
    text += fmt::format("buffer {}: {}, {} entries of {} bytes\n", b.id, b.type, b.entries, b.bytes);
  return text;
}

/// Entries of a page and more start at one, so that writing them reads nothing.
void RemoteFile::layOut(int64_t headBytes) {
  recordsAt_ = roundedUp(headBytes, kPage);
  int64_t at = roundedUp(recordsAt_ + layout_.numEntries() * 2 * int64_t{sizeof(Record)}, kPage);
  for (const RemoteLayout::Buffer& b : layout_.buffers) {
    const int64_t slot = roundedUp(b.bytes, b.bytes < kPage ? 64 : kPage);
    places_.push_back({at, slot});
    at = roundedUp(at + 2 * slot * b.entries * layout_.lanes, kPage);
  }
  size_ = at;
}

/// The file has its name once it is whole.
void RemoteFile::make(const std::string& path, const std::string& description) {
  file_ = std::make_unique<File>(path + ".new", File::Open::kMade);
  if (!file_->tryLock()) fail(ErrorKind::kRuntime, "{} is being made by another session", path);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return open(path, description);  // another one was faster
  file_->truncate();
  try {
    file_->allocate(size_);
    const Head head{kMagic, description.size(), sumOf(description)};
    file_->write(0, &head, sizeof(head));
    file_->write(kDescriptionAt, description.data(), static_cast<int64_t>(description.size()));
    for (const uint64_t slot : {0, 1}) writeCommit({0, 0, checkOf(Commit{})}, slot);
    file_->sync();
  } catch (...) {
    file_->truncate();
    std::filesystem::remove(file_->path(), ignored);
    throw;
  }
  file_->rename(path, true);
  entries_.resize(static_cast<size_t>(layout_.numEntries()));
}

void RemoteFile::open(const std::string& path, const std::string& description) {
  file_ = std::make_unique<File>(path, File::Open::kThere);
  if (!file_->tryLock()) {
    fail(ErrorKind::kRuntime,
         "{} is in use by another session; detach that one first, or give each its own folder", path);
  }
  checkHead(description);
  checkSize();
  entries_.resize(static_cast<size_t>(layout_.numEntries()));
  readCommits();
  for (const auto& [number, slot] : readRecords()) writeRecord(number, slot, {});
}

void RemoteFile::checkHead(const std::string& description) const {
  const auto damaged = [&](const char* what) {
    fail(ErrorKind::kRuntime,
         "{} is no file of remote buffers or is damaged: {}; name another folder, or bring the file back "
         "from a copy",
         file_->path(), what);
  };
  Head head;
  const int64_t size = file_->size();
  if (size < kDescriptionAt) damaged("it is too short");
  file_->read(0, &head, sizeof(head));
  if (head.magic != kMagic) damaged("it begins with other bytes");
  if (head.descriptionBytes > static_cast<uint64_t>(size - kDescriptionAt)) damaged("its head is not whole");
  std::string theirs(head.descriptionBytes, '\0');
  file_->read(kDescriptionAt, theirs.data(), static_cast<int64_t>(theirs.size()));
  if (sumOf(theirs) != head.descriptionSum) damaged("the checksum of its head differs");
  if (theirs == description) return;
  const auto [mine, other] = firstDifference(description, theirs);
  fail(ErrorKind::kRuntime,
       "{} belongs to another program: it has `{}` where this one has `{}`; name another folder, or remove "
       "the file if nobody needs it",
       file_->path(), other, mine);
}

void RemoteFile::checkSize() const {
  const int64_t size = file_->size();
  if (size >= size_) return;
  std::string lost = "its list of entries";
  for (size_t i = 0; i < places_.size(); ++i) {
    if (size < places_[i].offset) break;
    const RemoteLayout::Buffer& b = layout_.buffers[i];
    const int64_t slots = (size - places_[i].offset) / std::max<int64_t>(places_[i].slotBytes, 1);
    if (slots < 2 * b.entries * layout_.lanes) lost = layout_.describe(b.firstNumber + slots / 2);
  }
  fail(ErrorKind::kRuntime,
       "{} is torn: it has {} of {} bytes, so that {} and what follows is lost; bring the file back from a "
       "copy, or remove it to begin anew",
       file_->path(), size, size_, lost);
}

void RemoteFile::readCommits() {
  bool found = false, damaged = false;
  for (int64_t slot = 0; slot < 2; ++slot) {
    Commit commit;
    file_->read(kCommitsAt + slot * kPage, &commit, sizeof(commit));
    if (commit.check != checkOf(commit)) {
      damaged = true;
    } else if (!found || commit.generation > committed_.generation) {
      before_ = std::exchange(committed_, commit);
      found = true;
    } else {
      before_ = commit;
    }
  }
  if (!found)
    fail(ErrorKind::kRuntime, "{} is torn: which data are whole can't be read; remove it to begin anew",
         file_->path());
  if (damaged) {
    log().warn("{}: the machine stopped within a commit; remote buffers are as they were before that run",
               file_->path());
  }
}

/// Finds the slot of each entry that was committed last. Gives the records that were written after that.
std::vector<std::pair<int64_t, int>> RemoteFile::readRecords() {
  uint64_t digest = 0;
  int64_t torn = -1;
  std::vector<std::pair<int64_t, int>> stale;
  std::vector<std::array<Record, 2>> records(entries_.size());
  file_->read(recordsAt_, records.data(), static_cast<int64_t>(records.size() * sizeof(records[0])));
  for (int64_t n = 0; n < layout_.numEntries(); ++n) {
    Entry& entry = entries_[static_cast<size_t>(n)];
    entry = {};
    for (int slot = 0; slot < 2; ++slot) {
      const Record& r = records[static_cast<size_t>(n)][static_cast<size_t>(slot)];
      const bool isWhole = r.check == checkOf(n, r);
      if (!isWhole) torn = n;
      if (!isWhole || r.generation > committed_.generation) {
        stale.emplace_back(n, slot);
      } else {
        entry.slots[static_cast<size_t>(slot)] = r;
      }
    }
    entry.latest = entry.slots[1].generation > entry.slots[0].generation ? 1 : 0;
    digest += entry.slots[entry.latest].check;
  }
  if (digest != committed_.digest) {
    fail(ErrorKind::kRuntime,
         "{} is torn: {} not what run {} left there, as the machine stopped before all of it was on the "
         "disk; bring the file back from a copy, or remove it to begin anew",
         file_->path(), torn < 0 ? "some entries are" : layout_.describe(torn) + " is",
         committed_.generation);
  }
  return stale;
}

uint64_t RemoteFile::checkOf(int64_t number, const Record& r) {
  if (r.generation == 0) return 0;
  const std::array<uint64_t, 3> what = {static_cast<uint64_t>(number), r.generation, r.sum};
  return checksum(reinterpret_cast<const std::byte*>(what.data()), sizeof(what));
}

uint64_t RemoteFile::checkOf(const Commit& c) {
  const std::array<uint64_t, 3> what = {kMagic, c.generation, c.digest};
  return checksum(reinterpret_cast<const std::byte*>(what.data()), sizeof(what));
}

int64_t RemoteFile::slotAt(int64_t number, int slot) const {
  const RemoteLayout::Buffer& b = layout_.bufferOf(number);
  const Place& place = places_[static_cast<size_t>(&b - layout_.buffers.data())];
  return place.offset + (2 * (number - b.firstNumber) + slot) * place.slotBytes;
}

void RemoteFile::writeRecord(int64_t number, int slot, Record record) {
  record.check = checkOf(number, record);
  file_->write(recordsAt_ + (2 * number + slot) * int64_t{sizeof(Record)}, &record, sizeof(record));
  entries_[static_cast<size_t>(number)].slots[static_cast<size_t>(slot)] = record;
}

void RemoteFile::read(int64_t number, std::byte* to) const {
  const Entry& entry = entries_[static_cast<size_t>(number)];
  const Record& record = entry.slots[entry.latest];
  const int64_t bytes = layout_.bufferOf(number).bytes;
  if (record.generation == 0) {
    std::fill_n(to, bytes, std::byte{0});
    return;
  }
  file_->read(slotAt(number, entry.latest), to, bytes);
  if (checksum(to, static_cast<size_t>(bytes)) != record.sum) {
    fail(ErrorKind::kRuntime,
         "{} is torn in {}: its data are not those that run {} stored; bring the file back from a copy, or "
         "store the entry anew",
         layout_.describe(number), file_->path(), record.generation);
  }
}

void RemoteFile::write(int64_t number, const std::byte* from) {
  Entry& entry = entries_[static_cast<size_t>(number)];
  const int64_t bytes = layout_.bufferOf(number).bytes;
  const int slot = entry.isNew ? entry.latest : 1 - entry.latest;
  if (!entry.isNew) {
    const std::lock_guard<std::mutex> lock(mutex_);
    written_.push_back(number);
  }
  entry.isNew = true;
  entry.latest = static_cast<uint8_t>(slot);
  file_->write(slotAt(number, slot), from, bytes);
  writeRecord(number, slot, {committed_.generation + 1, checksum(from, static_cast<size_t>(bytes)), 0, 0});
}

bool RemoteFile::isKept(int64_t number) const {
  const Entry& entry = entries_[static_cast<size_t>(number)];
  return entry.slots[entry.latest].generation != 0;
}

void RemoteFile::commit(bool sync) {
  if (broken_) {
    fail(ErrorKind::kRuntime,
         "{} could not be written, so that its state is not known here; make the session anew",
         file_->path());
  }
  Commit next{committed_.generation + 1, committed_.digest, 0};
  for (const int64_t number : written_) {
    const Entry& entry = entries_[static_cast<size_t>(number)];
    next.digest += entry.slots[entry.latest].check - entry.slots[1 - entry.latest].check;
  }
  next.check = checkOf(next);
  if (sync) file_->sync();
  writeCommit(next, next.generation % 2);
  if (sync) file_->sync();
  committed_ = next;
  for (const int64_t number : written_) entries_[static_cast<size_t>(number)].isNew = false;
  written_.clear();
}

void RemoteFile::writeCommit(const Commit& commit, uint64_t slot) {
  file_->write(kCommitsAt + static_cast<int64_t>(slot) * kPage, &commit, sizeof(commit));
}

void RemoteFile::undoCommit() {
  if (before_.generation + 1 != committed_.generation) {
    fail(ErrorKind::kRuntime, "{} has no state before that of run {}", file_->path(), committed_.generation);
  }
  const uint64_t slot = committed_.generation % 2;
  committed_ = before_;
  const auto undone = readRecords();  // also finds out whether all is there
  // The commit goes first: without the records that it counts the file would be torn.
  writeCommit(committed_, slot);
  sync();
  for (const auto& [number, recordSlot] : undone) writeRecord(number, recordSlot, {});
}

void RemoteFile::rollBack() {
  broken_ = true;
  for (const int64_t number : written_) {
    Entry& entry = entries_[static_cast<size_t>(number)];
    if (!entry.isNew) continue;
    writeRecord(number, entry.latest, {});
    entry.isNew = false;
    entry.latest = 1 - entry.latest;
  }
  written_.clear();
  broken_ = false;
}

}  // namespace popxl::exec
